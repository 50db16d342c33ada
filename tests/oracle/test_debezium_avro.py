"""Debezium's envelopes in Avro against fastavro, which wrote them, and against the reader of `verify`."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from endmark.pipeline import Stream
from endmark.wire.avro import cursor as avro_cursor
from support.avro_fates import FEW, changed, fates, plain
from support.avro_records import Schemas, World, worlds
from support.avro_registry import ENVELOPE, PUNCTUATION, encoded, envelope_schema, framed
from support.avro_registry import punctuation as as_record
from support.cases import cases

OPS = ["c", "r", "u", "d", "", "cr", "t"]
PATTERNS: list[dict[str, Any]] = [
    {"item_id": {"equals": 7}},
    {"item_id": {"one_of": [7]}},
    {"bid_at": {"between": {"to": "2026-01-01T00:00:00Z"}}},
    {"bid_at": {"equals": "2026-01-01T00:00:00Z"}},
    {"item_id": {"equals": "7"}},
    {},
]


def captured(stream: Stream, *, updates: bool, on: tuple[str, ...] = ("item_id",)) -> Stream:
    changes = {"format": "debezium_avro", "updates": "rows" if updates else "dead_letter"}
    return stream.model_copy(update=changes | {"punctuated_on": on})


def envelopes(world: World) -> dict[str, Any]:
    """The schema of changes of a world's rows."""
    return envelope_schema(["null", world.schema], ["null", f"shop.{world.schema['name']}"])


def change(op: str, before: Any, after: Any) -> dict[str, Any]:
    return ENVELOPE | {"op": op, "before": before, "after": after}


@cases(50, among=2)
@given(data=st.data(), world=worlds(), updates=st.booleans(), few=FEW)
def test_rows_are_those_that_fastavro_wrote(
    data: st.DataObject, world: World, updates: bool, few: int
) -> None:
    """Whatever the table: the values of columns come back, and each deletion names its key."""
    rows = data.draw(st.lists(world.values, min_size=1, max_size=8))
    ops = [data.draw(st.sampled_from("crud")) for _ in rows]
    schema, expected = envelopes(world), []
    records: list[bytes | None] = []
    for op, row in zip(ops, rows, strict=True):
        before = row if op in "ud" else None
        records.append(framed(7, encoded(schema, change(op, before, None if op == "d" else row))))
        is_row = op in "cr" or (op == "u" and updates)
        key = (row["item_id"],)
        expected.append(world.expected(row) if is_row else key if op == "d" else "dead letter")

    with patch.object(avro_cursor, "FEW", few):
        found = fates(captured(world.stream, updates=updates), Schemas({7: json.dumps(schema)}), records)

    assert found == expected


@st.composite
def histories(draw: st.DrawFn) -> tuple[Stream, Schemas, list[bytes | None]]:
    """Changes by three schemas, some of which are cut or changed, and punctuations."""
    world, other = draw(worlds()), draw(worlds())
    schema, both = envelopes(world), [envelopes(world), PUNCTUATION]
    texts = {1: schema, 2: both, -1: PUNCTUATION, 7: envelopes(other), 8: world.schema}
    texts |= {9: envelope_schema(["null"], world.schema), 10: envelope_schema("string", ["null", "string"])}
    found: list[bytes | None] = []
    for _ in range(draw(st.integers(1, 12))):
        op, row = draw(st.sampled_from([*OPS, *"crud"])), draw(world.values)
        before, after = draw(st.sampled_from([(None, row), (row, None), (row, row), (None, None)]))
        match draw(st.sampled_from(["change", "change", "branch", "promise", "other", "plain", "odd"])):
            case "change":
                value = framed(1, encoded(schema, change(op, before, after)))
            case "branch":
                written = ("shop.table.Envelope", change(op, before, after))
                promise = (
                    "endmark.Punctuation",
                    {"punctuation": json.dumps(draw(st.sampled_from(PATTERNS)))},
                )
                value = framed(2, encoded(both, draw(st.sampled_from([written, promise]))))
            case "promise":
                value = framed(-1, as_record(draw(st.sampled_from(PATTERNS))))
            case "other":
                value = framed(7, encoded(envelopes(other), change(op, None, draw(other.values))))
            case "plain":
                value = framed(8, encoded(world.schema, row))
            case _:
                odd = change(op, None, row), change(op, "a", draw(st.sampled_from(["a", None])))
                number = draw(st.sampled_from([9, 10]))
                value = framed(number, encoded(texts[number], odd[number - 9]))
        found.append(draw(changed(value)) if draw(st.booleans()) else value)
    found.append(None)
    on = draw(st.sampled_from([("item_id",), (), ("item_id", "bid_at"), ("bid_at",)]))
    stream = captured(world.stream, updates=draw(st.booleans()), on=on)
    return stream, Schemas({number: json.dumps(each) for number, each in texts.items()}), found


@cases(100, among=1)
@given(history=histories(), few=FEW)
def test_records_meet_the_same_fate(history: tuple[Stream, Schemas, list[bytes | None]], few: int) -> None:
    """However small cuts and insertions change them, in whatever company, and whatever deletions name."""
    stream, schemas, values = history

    with patch.object(avro_cursor, "FEW", few):
        found = fates(stream, schemas, values)

    assert found == [plain(stream, schemas, value) for value in values]
