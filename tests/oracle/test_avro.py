"""The parser of Avro against fastavro, which wrote the records, and against the reader of `verify`."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.pipeline import Stream
from endmark.pipeline.formats import FORMATS
from endmark.types import ColumnType
from endmark.verify.formats import FORMATS as READERS
from endmark.verify.formats import reason_of
from support.avro_records import (
    LEAVES,
    PUNCTUATION,
    Schemas,
    World,
    encoded,
    framed,
    named_apart,
    punctuation,
    stream_of,
    worlds,
)
from support.cases import cases
from support.verify_fates import Promise, fate

PATTERNS: list[Any] = [
    {"item_id": {"equals": 7}},
    {"item_id": {"one_of": [7]}},
    {"bid_at": {"between": {"to": "2026-01-01T00:00:00Z"}}},
    {},
    7,
    "a",
]
PAIR = {"item_id": ColumnType.LONG}
TOKENS = [
    *(b"\x80" * 10, b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x02", b"\xff" * 9 + b"\x7f", b"\xff" * 11),
    *(b"\x80" * 8 + b"\x10", b"\xfe\xff\xff\xff\xff\xff\xff\xff\x1f", b"\x00", b"\x01", b"\x02", b"\x03"),
    *(b"\xc0\xaf", b"\xed\xa0\x80", b"\xff", b"\x80", b"\x00\x00\xc0\x7f", b"\x00" * 6 + b"\xf0\x7f"),
]


def fates(stream: Stream, schemas: Schemas, values: list[bytes | None]) -> list[Any]:
    """Parse all values at once, and return the fate of each, as in test_formats. Each rejection has the
    reason that `verify` finds."""
    parser = FORMATS["avro"].parser(stream, "bids", stream.punctuated_on, (), schemas)
    # An array that does not begin where its buffer does.
    parsed = parser.parse(pa.array([b"before", *values, b"behind"], pa.binary())[1:-1])
    found: dict[int, Any] = dict(zip(parsed.row_at.tolist(), parsed.rows.to_pylist(), strict=True))
    keys = [tuple(key.values()) for key in parsed.closed_keys.to_pylist()]
    found.update(zip(parsed.closed_keys_at.tolist(), keys, strict=True))
    found.update((at, "promise") for at, _ in parsed.promises)
    form = READERS["avro"].given(schemas)  # type: ignore[arg-type]
    for rejection in parsed.rejections:
        assert rejection.value == values[rejection.at]
        assert rejection.reason == reason_of(rejection.value, stream, form), rejection
        found[rejection.at] = "dead letter"
    assert list(parsed.row_at) == sorted(parsed.row_at)
    assert list(parsed.closed_keys_at) == sorted(parsed.closed_keys_at)
    return [found[at] for at in range(len(values))]


def plain(stream: Stream, schemas: Schemas, value: bytes | None) -> Any:
    """Return the fate of one value by the reader of `verify`, in the form that `fates` has."""
    flat = READERS["avro"].given(schemas).flat  # type: ignore[arg-type]
    assert flat is not None
    found = fate(stream, flat(value or b"", stream))
    return "promise" if isinstance(found, Promise) else found


@cases(150, among=2)
@given(data=st.data(), world=worlds())
def test_rows_are_those_that_fastavro_wrote(data: st.DataObject, world: World) -> None:
    """Whatever the schema: the values of columns come back, and other fields are left out."""
    values = data.draw(st.lists(world.values, min_size=1, max_size=8))
    schemas = Schemas({7: json.dumps(world.schema)})

    found = fates(world.stream, schemas, [framed(7, encoded(world.schema, value)) for value in values])

    assert found == [world.expected(value) for value in values]


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: f"{leaf.type} as {leaf.column}")
@cases(10, among=60)
@given(data=st.data())
def test_each_type_comes_back(leaf: Any, data: st.DataObject) -> None:
    kind = named_apart(leaf.type, [0])
    schema = {
        "type": "record",
        "name": "Row",
        "fields": [{"name": "item_id", "type": "long"}, {"name": "c", "type": kind}],
    }
    values = data.draw(st.lists(leaf.values, min_size=1, max_size=8))
    stream = stream_of(PAIR | {"c": ColumnType.parse(leaf.column)})
    schemas = Schemas({1: json.dumps(schema)})
    records: list[bytes | None] = [framed(1, encoded(schema, {"item_id": 1, "c": value})) for value in values]

    found = fates(stream, schemas, records)

    assert [row["c"] for row in found] == [leaf.read(value) for value in values]
    assert found == [plain(stream, schemas, record) for record in records]


@st.composite
def histories(draw: st.DrawFn) -> tuple[Stream, Schemas, list[bytes | None]]:
    """Records of two writers, some of which are cut, changed, or of no schema, and punctuations."""
    world, other = draw(worlds()), draw(worlds())
    both = [world.schema, PUNCTUATION]
    texts = {1: world.schema, 2: both, -1: PUNCTUATION, 7: other.schema}
    found: list[bytes | None] = []
    for _ in range(draw(st.integers(1, 12))):
        patterns = draw(
            st.sampled_from([{"item_id": {"equals": 7}}, {"item_id": {"one_of": [7]}}, {}, 7, "a"])
        )
        match draw(st.sampled_from(["row", "branch", "promise", "other", "none"])):
            case "row":
                value = framed(1, encoded(world.schema, draw(world.values)))
            case "branch":
                record = draw(world.values.map(lambda row: (f"shop.{world.schema['name']}", row)))
                promise = ("endmark.Punctuation", {"punctuation": json.dumps(patterns)})
                value = framed(2, encoded(both, draw(st.sampled_from([record, promise]))))
            case "promise":
                value = framed(-1, punctuation(patterns) if isinstance(patterns, dict) else b"\x02a")
            case "other":
                value = framed(7, encoded(other.schema, draw(other.values)))
            case _:
                value = draw(
                    st.sampled_from([b"", b"\0", b"{}", framed(3, b"\2"), b"\1" + framed(1, b"\2"[:0])])
                )
        found.append(draw(changed(value)) if draw(st.booleans()) else value)
    found.append(None)
    return world.stream, Schemas({number: json.dumps(each) for number, each in texts.items()}), found


@st.composite
def changed(draw: st.DrawFn, value: bytes) -> bytes:
    """A record with a few small cuts and insertions."""
    for _ in range(draw(st.integers(1, 3))):
        start, cut = draw(st.integers(0, len(value))), draw(st.integers(0, 3))
        inserted = draw(st.one_of(st.just(b""), st.sampled_from(TOKENS), st.binary(max_size=2)))
        value = value[:start] + inserted + value[start + cut :]
    return value


@cases(250, among=1)
@given(history=histories())
def test_records_meet_the_same_fate(history: tuple[Stream, Schemas, list[bytes | None]]) -> None:
    """However small cuts and insertions change them, and in whatever company."""
    stream, schemas, values = history

    assert fates(stream, schemas, values) == [plain(stream, schemas, value) for value in values]
