"""Reads flat XML records: one element whose children hold nothing but text.

A document type is refused, so XML's own five entities are the only ones. A record therefore cannot expand to
a larger one or reach another file. An element that nests deeper is refused where it begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.parsers import expat

from endmark.domain import PunctuationError

if TYPE_CHECKING:
    from collections.abc import Collection


def read_flat(record: bytes, known: Collection[str] | None = None) -> tuple[str, dict[str, str]]:
    """Return the name of the record's element, and the texts of its children by name.

    A prefix needs no declaration, and is a part of the name.

    Args:
        record: the bytes of the record.
        known: the children that count. All others may hold anything and stand any number of times, and
            have an empty text here, unless the record's element has a prefix. `None`: all children count.

    Raises:
        PunctuationError: the bytes are no such record in UTF-8.
    """
    return _Reader(known).read(record)


def _require_utf8(record: bytes) -> None:
    """Refuse any other encoding: Expat detects UTF-16 by itself, even if it is created for UTF-8."""
    try:
        text = record.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PunctuationError(f"not XML: byte {error.start} is not UTF-8") from None
    if "\0" in text:
        raise PunctuationError("not XML: a record in UTF-8 has no NUL")


class _Reader:
    def __init__(self, known: Collection[str] | None) -> None:
        self._known = known
        self._left_out = 0  # the levels of an element that does not count
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
        if self._left_out or (depth == 1 and self._is_unknown(name)):
            self._left_out += 1
            if depth == 1 and self._left_out == 1:
                self._texts[name] = []
            return
        if depth > 1 or name in self._texts:
            raise PunctuationError(f"{name!r} stands twice or where only flat elements may")
        if attributes.keys() - {"xmlns:punct"}:
            raise PunctuationError(f"{name!r} has attributes: {', '.join(attributes)}")
        self._path.append(name)
        if depth == 0:
            self._root = name
        else:
            self._texts[name] = []

    def _is_unknown(self, name: str) -> bool:
        return self._known is not None and name not in self._known and ":" not in self._root

    def _end(self, _: str) -> None:
        if self._left_out:
            self._left_out -= 1
        else:
            self._path.pop()

    def _text(self, text: str) -> None:
        if self._left_out:
            return
        if len(self._path) == 2:
            self._texts[self._path[1]].append(text)
        elif text.strip():
            raise PunctuationError(f"{text.strip()[:80]!r} stands outside of any element")
