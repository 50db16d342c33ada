"""Reads flat XML records: one element whose children hold nothing but text.

A document type is refused, so XML's own five entities are the only ones. A record therefore cannot expand to
a larger one or reach another file. An element that nests deeper is refused where it begins.
"""

from __future__ import annotations

from xml.parsers import expat

from endmark.domain import PunctuationError


def read_flat(record: bytes) -> tuple[str, dict[str, str]]:
    """Return the name of the record's element, and the texts of its children by name.

    A prefix needs no declaration, and is a part of the name.

    Raises:
        PunctuationError: the bytes are no such record in UTF-8.
    """
    return _Reader().read(record)


def _require_utf8(record: bytes) -> None:
    """Refuse any other encoding: Expat detects UTF-16 by itself, even if it is created for UTF-8."""
    try:
        text = record.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PunctuationError(f"not XML: byte {error.start} is not UTF-8") from None
    if "\0" in text:
        raise PunctuationError("not XML: a record in UTF-8 has no NUL")


class _Reader:
    def __init__(self) -> None:
        self._path: list[str] = []
        self._root = ""
        self._texts: dict[str, list[str]] = {}

    def read(self, record: bytes) -> tuple[str, dict[str, str]]:
        _require_utf8(record)
        parser = expat.ParserCreate("UTF-8")
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        try:
            parser.Parse(record, True)
        except expat.ExpatError as error:
            raise PunctuationError(f"not XML: {error}") from None
        return self._root, {name: "".join(pieces) for name, pieces in self._texts.items()}

    def _refuse_doctype(self, name: str, *_: object) -> None:
        raise PunctuationError(f"a record has no document type, this declares {name!r}")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        depth = len(self._path)
        if depth > 1 or name in self._texts:
            raise PunctuationError(f"{name!r} stands twice or where only flat elements may")
        if attributes.keys() - {"xmlns:punct"}:
            raise PunctuationError(f"{name!r} has attributes: {', '.join(attributes)}")
        self._path.append(name)
        if depth == 0:
            self._root = name
        else:
            self._texts[name] = []

    def _end(self, _: str) -> None:
        self._path.pop()

    def _text(self, text: str) -> None:
        if len(self._path) == 2:
            self._texts[self._path[1]].append(text)
        elif text.strip():
            raise PunctuationError(f"{text.strip()[:80]!r} stands outside of any element")
