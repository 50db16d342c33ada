"""Marks in the place of values that a connector did not get."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from endmark.types import ColumnType
from endmark.wire.json.records import JsonParser
from endmark.wire.record_spec import RecordSpec
from endmark.wire.unavailable_values import without_unavailable

PARSER = JsonParser(RecordSpec({"id": ColumnType.LONG, "note": ColumnType.parse("string?")}, ()))


@pytest.mark.parametrize(
    "mark",
    [
        "__debezium_unavailable_value",
        "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
        "5f5f646562657a69756d5f756e617661696c61626c655f76616c7565",
    ],
)
def test_a_mark_is_no_value(mark: str) -> None:
    """Connectors and converters write bytes as text, in Base64 or in hexadecimal digits, and so the mark."""
    notes = ["a", mark, None, mark.swapcase(), mark]
    values = [json.dumps({"id": number, "note": note}).encode() for number, note in enumerate(notes)]
    records = pa.array([*values, b"{"], pa.binary())

    parsed = without_unavailable(PARSER.parse(records), records)

    assert parsed.row_at.tolist() == [0, 2, 3]
    assert parsed.rows.column("id").to_pylist() == [0, 2, 3]
    assert [(each.at, each.reason, each.value) for each in parsed.rejections] == [
        (1, "unavailable", values[1]),
        (4, "unavailable", values[4]),
        (5, "malformed", b"{"),
    ]
    assert "did not get the value of 'note'" in parsed.rejections[0].error
