"""Reads XML records strictly and one at a time, by Python's SAX.

A punctuation is an element `punct:record`, and a row is any element without a prefix. Each child has the text
of one column.
"""

from __future__ import annotations

import io
import json
import re
import xml.sax
from collections.abc import Container
from typing import Any
from xml.sax.handler import ContentHandler, feature_namespaces, property_lexical_handler
from xml.sax.xmlreader import InputSource

from endmark.domain import Domain
from endmark.pipeline import Stream
from endmark.types import ColumnType
from endmark.verify.formats.patterns import MARK

_BARE = (Domain.LONG, Domain.DOUBLE, Domain.BOOLEAN)
_ITEM = r'"(?:[^"\\]|\\.)*"|[^\s"*∅{}\[\](),][^"*∅{}\[\](),]*'
_LIST = re.compile(rf"\{{\s*(?:(?:{_ITEM})\s*(?:,\s*(?:{_ITEM})\s*)*)?\}}", re.DOTALL)
_RANGE = re.compile(
    rf"(?P<from_open>[\[(])\s*(?P<low>{_ITEM})?\s*,\s*(?P<high>{_ITEM})?\s*(?P<to_open>[\])])", re.DOTALL
)


class _Flat(ContentHandler):
    """Collects the children of the outermost element.

    Args:
        counting: the children of a row that count; `None` for all.
    """

    def __init__(self, counting: Container[str] | None) -> None:
        super().__init__()
        self._counting = counting
        self._ignored_at: int | None = None  # the depth of the child that is being ignored
        self.root = ""
        self.found: list[tuple[str, str]] = []
        self._depth = 0

    def startElement(self, name: str, attrs: Any) -> None:  # noqa: N802
        if self._is_ignored(name):
            self._depth += 1
            return
        if any(attribute != "xmlns:punct" for attribute in attrs.getNames()) or self._depth > 1:
            raise ValueError(name)
        if self._depth:
            self.found.append((name, ""))
        else:
            self.root = name
        self._depth += 1

    def _is_ignored(self, name: str) -> bool:
        if self._ignored_at is None and self._depth == 1 and self._counting is not None:
            counts = name in self._counting or ":" in self.root
            self._ignored_at = None if counts else self._depth
        return self._ignored_at is not None

    def endElement(self, name: str) -> None:  # noqa: N802
        self._depth -= 1
        if self._depth == self._ignored_at:
            self._ignored_at = None

    def characters(self, content: str) -> None:
        if self._ignored_at is not None:
            return
        if self._depth == 2:
            name, before = self.found[-1]
            self.found[-1] = name, before + content
        elif content.strip():
            raise ValueError(content)

    def startDTD(self, *_: object) -> None:  # noqa: N802
        raise ValueError("a document type")

    def comment(self, *_: object) -> None:
        """Ignore comments, and other parts of a document that have no meaning in a record."""

    endDTD = startEntity = endEntity = startCDATA = endCDATA = comment  # noqa: N815


def elements(value: bytes, declared: Stream) -> tuple[str, dict[str, str]] | None:
    """Return the name of the outermost element, and its children's texts by name; `None` for other bytes.

    Under `extra: ignore`, children of a row that are not declared are left out, whatever they hold.
    """
    if b"\0" in value:
        return None
    try:
        value.decode("utf-8")
        handler = _read(value, _Flat(declared.columns if declared.extra == "ignore" else None))
    except (ValueError, xml.sax.SAXException):
        return None
    texts = dict(handler.found)
    return None if len(texts) < len(handler.found) else (handler.root, texts)


def flat(value: bytes, declared: Stream) -> bytes | None:
    """Return the row or punctuation of a record as flat JSON; `None` for any other record."""
    if len(value) > declared.max_record or (found := elements(value, declared)) is None:
        return None
    root, texts = found
    try:
        if ":" not in root:
            members = {
                column: _value(text.strip(" \t\r\n"), declared.columns[column])
                for column, text in texts.items()
            }
            return json.dumps(members, ensure_ascii=False).encode()
        if root == "punct:record" and texts:
            patterns = {
                column: _pattern(text.strip(), declared.columns[column]) for column, text in texts.items()
            }
            restricted = {column: each for column, each in patterns.items() if each != {"anything": True}}
            return json.dumps({MARK: restricted or patterns}, ensure_ascii=False).encode()
    except (ValueError, KeyError):
        pass
    return None


def _read(value: bytes, handler: _Flat) -> _Flat:
    parser = xml.sax.make_parser()  # noqa: S317  # without document types there are no entities
    parser.setFeature(feature_namespaces, False)
    parser.setContentHandler(handler)
    parser.setProperty(property_lexical_handler, handler)
    source = InputSource()
    source.setEncoding("utf-8")
    source.setByteStream(io.BytesIO(value))
    parser.parse(source)
    return handler


def _value(text: str, kind: ColumnType) -> Any:
    """A text of XML as a JSON value. A text that is no number or boolean stays text.

    An empty element is null in a nullable column.
    """
    if kind.nullable and not text:
        return None
    if kind.domain in _BARE or kind.spelling:
        try:
            found = json.loads(text)
        except ValueError:
            return text
        return found if text == text.strip() and type(found) in (int, float, bool) else text
    return text


def _pattern(text: str, kind: ColumnType) -> dict[str, Any]:
    if text in ("*", "∅"):
        return {"anything": True} if text == "*" else {"nothing": True}
    if re.fullmatch(_ITEM, text, re.DOTALL):
        return {"equals": _constant(text, kind)}
    if _LIST.fullmatch(text):
        return {"one_of": [_constant(item, kind) for item in re.findall(_ITEM, text[1:-1], re.DOTALL)]}
    if not (found := _RANGE.fullmatch(text)):
        raise ValueError(text)
    ends: dict[str, Any] = {}
    for end, written, opened, bracket in (
        ("from", found["low"], found["from_open"], "("),
        ("to", found["high"], found["to_open"], ")"),
    ):
        if written is not None:
            ends |= {end: _constant(written, kind), f"{end}_open": opened == bracket}
    return {"between": ends}


def _constant(written: str, kind: ColumnType) -> Any:
    written = written.strip()
    if kind.domain in _BARE or kind.spelling or written.startswith('"'):
        return json.loads(written)
    return written
