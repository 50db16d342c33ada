"""Punctuations as XML records, as in figure 3 of the MJoin report.

    <punct:record><sno> 79 </sno><ipaddr> * </ipaddr></punct:record>

An element per attribute holds its pattern in the notation of `notation.py`; an attribute without element
matches anything. The report declares no namespace for the prefix, so a declaration is allowed, not written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.parsers import expat
from xml.sax.saxutils import escape

from endmark.punctuation.domain import Domain, PunctuationError
from endmark.punctuation.notation import from_notation, to_notation
from endmark.punctuation.pattern import Anything
from endmark.punctuation.punctuation import Origin, Punctuation

RECORD = "punct:record"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def encode(punctuation: Punctuation, domains: Mapping[str, Domain]) -> bytes:
    """A record with an element for every attribute of the stream."""
    patterns = dict(punctuation.patterns)
    elements = []
    for name, domain in domains.items():
        if not _NAME.fullmatch(name):
            raise PunctuationError(f"{name!r} cannot be the name of an XML element")
        notation = escape(to_notation(patterns.get(name, Anything()), domain))
        elements.append(f"<{name}>{notation}</{name}>")
    return f"<{RECORD}>{''.join(elements)}</{RECORD}>".encode()


def decode(
    record: bytes, stream: str, domains: Mapping[str, Domain], origin: Origin | None = None
) -> Punctuation:
    """The punctuation a record is; `PunctuationError` for any other bytes."""
    return Punctuation.read(stream, _Reader().read(record), domains, from_notation, origin)


class _Reader:
    """Texts of the elements of one record. Without a document type there are no entities but XML's own
    five, so a record expands to nothing larger and reaches no other file."""

    def __init__(self) -> None:
        self._path: list[str] = []
        self._texts: dict[str, list[str]] = {}

    def read(self, record: bytes) -> dict[str, str]:
        parser = expat.ParserCreate()
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        try:
            parser.Parse(record, True)
        except expat.ExpatError as error:
            raise PunctuationError(f"not XML: {error}") from None
        if not self._texts:
            raise PunctuationError(f"{RECORD} names no attribute")
        return {name: "".join(pieces) for name, pieces in self._texts.items()}

    def _refuse_doctype(self, name: str, *_: object) -> None:
        raise PunctuationError(f"a record has no document type, this declares {name!r}")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        depth = len(self._path)
        if (name != RECORD) if depth == 0 else (depth > 1 or name in self._texts):
            raise PunctuationError(f"{name!r} stands twice or where only {RECORD} with flat elements may")
        if attributes.keys() - {"xmlns:punct"}:
            raise PunctuationError(f"{name!r} has attributes: {', '.join(attributes)}")
        self._path.append(name)
        if depth == 1:
            self._texts[name] = []

    def _end(self, _: str) -> None:
        self._path.pop()

    def _text(self, text: str) -> None:
        if len(self._path) == 2:
            self._texts[self._path[1]].append(text)
        elif text.strip():
            raise PunctuationError(f"{text.strip()[:80]!r} stands outside of any attribute")
