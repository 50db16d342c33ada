"""Parses flat XML records and punctuations of declared columns, as in MJoin's running example.

    <record><sno> 79 </sno><ipaddr> 202.112.39.8 </ipaddr></record>
    <punct:record><sno> 79 </sno><ipaddr> * </ipaddr></punct:record>

The element of a row has any name without a prefix. Values are spelled as in JSON, but without quotes. Blanks
around them do not count. Each record is a document of its own. It is read by itself and written anew as JSON.
XML has no null: an empty element is null in a nullable column.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import numpy as np

from endmark.domain import PunctuationError
from endmark.punctuation import wire_json, wire_xml
from endmark.punctuation.flat_xml import read_flat
from endmark.punctuation.scalars import TEXTS
from endmark.wire.json.promises import require_digits
from endmark.wire.json.records import JsonParser, Parsed
from endmark.wire.json.spelling import pattern
from endmark.wire.json.translation import parse_translated
from endmark.wire.rejection import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from endmark.wire.record_spec import RecordSpec

BLANKS = " \t\r\n"


class XmlParser:
    """Parses the records of one stream.

    Args:
        records: what the records may say. Their members are elements, none of which is within another one.
        most: the most bytes that a record may have.
    """

    def __init__(self, records: RecordSpec, *, most: int) -> None:
        self._stream = records.stream
        self._most = most
        self._columns = records.columns
        self._domains = {name: kind.spelled for name, kind in records.columns.items()}
        self._known = records.value_paths.keys() if records.ignoring else None
        self._flat = JsonParser(records.flat)

    def parse(self, values: pa.Array) -> Parsed:
        """Parse the records in a binary array. No record raises: bad ones are in `rejections`."""
        return parse_translated(values, np.arange(len(values)), self._translated, self._flat)

    def _translated(self, value: bytes) -> bytes:
        if len(value) > self._most:
            raise UnreadableError(
                "too_large",
                f"{len(value):,} bytes; an XML record has {self._most:,} at most, unless "
                "streams.*.max_record says more",
            )
        if not value.strip():
            raise UnreadableError("empty", "the record has no value")
        try:
            root, texts = read_flat(value, self._known)
        except PunctuationError as why:
            raise UnreadableError("malformed", str(why)) from None
        if ":" not in root:
            return self._row({name: text.strip(BLANKS) for name, text in texts.items()})
        try:
            promise = wire_xml.decode(value, self._stream, self._domains)
            require_digits(promise, self._columns)  # encoding it as JSON would not check the digits
            return wire_json.encode(promise, self._domains)
        except PunctuationError as why:
            raise UnreadableError("bad_punctuation", str(why)) from None

    def _row(self, texts: Mapping[str, str]) -> bytes:
        members = [f"{json.dumps(name)}: {self._spelled(name, text)}" for name, text in texts.items()]
        return f"{{{', '.join(members)}}}".encode()

    def _spelled(self, name: str, text: str) -> str:
        """Spell a text as JSON. A text that is no value of its column becomes a string, which is refused."""
        kind = self._columns.get(name)
        if kind is not None and kind.nullable and not text:
            return "null"
        plain = kind is not None and kind.spelled not in TEXTS and re.fullmatch(pattern(kind), text)
        return text if plain else json.dumps(text, ensure_ascii=False)
