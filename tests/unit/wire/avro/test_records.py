"""Avro records: what each change of a schema does, how defects are told, and punctuations."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from endmark.punctuation.pattern import Between, OneOf
from endmark.schemas.registry import RegistryUnreachableError, Schema, SchemaFile
from endmark.types import ColumnType
from endmark.wire.avro.records import AvroParser
from endmark.wire.json.records import Parsed
from endmark.wire.record_spec import RecordSpec
from endmark.wire.rejection import UnreadableError
from support.avro_records import Schemas
from support.avro_registry import PUNCTUATION, encoded, framed, logical, punctuation

COLUMNS = {"item_id": "long", "price": "decimal(6,2)", "note": "string?", "at": "timestamp"}
AT = datetime(2026, 1, 31, tzinfo=UTC)
MICROS = logical("long", "timestamp-micros")
PRICE = logical("bytes", "decimal", precision=4, scale=2)
ROW = {"item_id": 7, "price": Decimal("1.50"), "note": "n", "at": AT}


def record(**fields: Any) -> dict[str, Any]:
    declared = [
        each if isinstance(each, dict) and "name" in each else {"type": each} for each in fields.values()
    ]
    named = [{"name": name} | each for name, each in zip(fields, declared, strict=True)]
    return {"type": "record", "name": "Bid", "namespace": "shop", "fields": named}


FIRST = record(item_id="int", price=PRICE, note=["null", "string"], at=MICROS)


def _within(**fields: str) -> dict[str, Any]:
    named = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": "Order", "fields": named}


def parse(
    schemas: dict[int, Any], *values: bytes | None, ignoring: bool = False, columns: dict[str, str] = COLUMNS
) -> Parsed:
    kinds = {name: ColumnType.parse(kind) for name, kind in columns.items()}
    texts = Schemas({number: json.dumps(schema) for number, schema in schemas.items()})
    parser = AvroParser(
        RecordSpec(kinds, ("item_id",), "bids", key=("item_id",), heartbeat_on="at", ignoring=ignoring), texts
    )
    return parser.parse(pa.array(values, pa.binary()))


def one(schema: Any, value: Any, **options: Any) -> Parsed:
    return parse({1: schema}, framed(1, encoded(schema, value)), **options)


@pytest.mark.parametrize(
    ("changed", "value", "note"),
    [
        (record(item_id="long", price=PRICE, note=["null", "string"], at=MICROS), ROW, "n"),
        (record(at=MICROS, price=PRICE, item_id="long"), ROW, None),
        (record(item_id="long", price=PRICE, note="string", at=MICROS), ROW, "n"),
        (record(item_id="long", price=PRICE, note="null", at=MICROS), ROW | {"note": None}, None),
        (
            record(
                item_id="long", price=PRICE, note=["string", "null"], at=logical("long", "timestamp-millis")
            ),
            ROW,
            "n",
        ),
        (
            record(
                item_id=["int", "long"],
                price=PRICE,
                at=MICROS,
                text={"name": "text", "type": "string", "aliases": ["note"]},
            ),
            ROW | {"text": "n"},
            "n",
        ),
    ],
    ids=["widened", "without an optional field", "no longer null", "always null", "other unit", "renamed"],
)
def test_a_schema_that_still_gives_the_columns(changed: Any, value: Any, note: str | None) -> None:
    """Records by the old and by the new one are read side by side."""
    old, new = framed(1, encoded(FIRST, ROW)), framed(2, encoded(changed, value))

    parsed = parse({1: FIRST, 2: changed}, new, old, new)

    assert parsed.rejections == []
    assert parsed.row_at.tolist() == [0, 1, 2]
    assert parsed.rows.to_pylist() == [ROW | {"note": note}, ROW, ROW | {"note": note}]


@pytest.mark.parametrize(
    ("changed", "reason", "error"),
    [
        (
            record(item_id="int", price="double", at=MICROS),
            "wrong_type",
            "schema 5: field 'price' must be readable as decimal(6,2), but is double",
        ),
        (
            record(item_id="int", price=logical("bytes", "decimal", precision=6, scale=3), at=MICROS),
            "wrong_type",
            "schema 5: field 'price' must be readable as decimal(6,2), but is bytes (decimal, scale 3)",
        ),
        (
            record(item_id="int", price=PRICE, at=logical("long", "local-timestamp-micros")),
            "wrong_type",
            "schema 5: field 'at' must be readable as timestamp, but is long (local-timestamp-micros)",
        ),
        (
            record(item_id="int", price=PRICE, at="long"),
            "wrong_type",
            "schema 5: field 'at' must be readable as timestamp, but is long",
        ),
        (
            record(item_id=["int", "string"], price=PRICE, at=MICROS),
            "wrong_type",
            "schema 5: field 'item_id' must be readable as long, but is int or string",
        ),
        (record(item_id="int", at=MICROS), "missing_field", "schema 5: the schema has no field 'price'"),
        (
            record(item_id="int", price=PRICE, at=MICROS, more="int"),
            "unknown_field",
            "schema 5: field 'more' is not declared; declared are item_id, price, note, at",
        ),
        ("long", "bad_schema", "schema 5: a row is a record, this is long"),
    ],
)
def test_a_schema_that_does_not_give_the_columns(changed: Any, reason: str, error: str) -> None:
    """Its records are dead letters that name it; records by others are read."""
    bad, good = framed(5, b"\2\2\2"), framed(1, encoded(FIRST, ROW))

    parsed = parse({1: FIRST, 5: changed}, bad, good)

    [rejection] = parsed.rejections
    assert (rejection.at, rejection.reason, rejection.error, rejection.value) == (0, reason, error, bad)
    assert parsed.rows.to_pylist() == [ROW]


@pytest.mark.parametrize(
    ("inner", "error"),
    [
        ("int", "field 'order.id' must be in a record, but that is int"),
        (_within(id="string"), "field 'order.id' must be readable as long, but is string"),
        (_within(number="long"), "the schema has no field 'order.id'"),
        (_within(id="long", more="int"), "field 'order.more' is not declared; declared are order.id, note"),
    ],
)
def test_an_error_names_the_way_to_a_column(inner: Any, error: str) -> None:
    columns = {"id": ColumnType.LONG, "note": ColumnType.parse("string?")}
    paths = {"id": ("order", "id"), "note": ("note",)}
    schema = {"type": "record", "name": "Row", "fields": [{"name": "order", "type": inner}]}

    ignoring = "number" in str(inner)
    parser = AvroParser(RecordSpec(columns, (), "bids", key=(), ignoring=ignoring, paths=paths), Schemas())

    with pytest.raises(UnreadableError, match=re.escape(error)):
        parser.require(Schema(json.dumps(schema)))


GOOD = framed(1, encoded(FIRST, ROW))
HUGE = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x1f"  # about 2**60


@pytest.mark.parametrize(
    ("value", "reason", "error"),
    [
        (b"", "empty", "the record has no value"),
        (b"{}", "malformed", "a record begins with a zero byte and the id of its schema in four bytes"),
        (b"\0\0\0\0", "malformed", "a record begins with a zero byte"),
        (framed(9, b"\2"), "unknown_schema", "schema 9: the registry has no such schema"),
        (framed(1, b""), "malformed", "schema 1: the bytes are no value of it"),
        (GOOD[:-1], "malformed", "schema 1: the bytes are no value of it"),
        (GOOD + b"\0", "malformed", "schema 1: the bytes are no value of it, or others stand behind"),
        (framed(1, b"\x0e" + HUGE), "malformed", "schema 1: the bytes are no value of it"),
        (framed(1, b"\x0e\x04\0\x96\x02" + HUGE), "malformed", "schema 1: the bytes are no value of it"),
        (framed(1, b"\x0e\x04\0\x96\x04" + GOOD[-8:]), "malformed", "schema 1: the bytes are no value of it"),
        (GOOD.replace(b"\2n", b"\2\xff"), "not_utf8", "schema 1: the text of field 'note' is not UTF-8"),
        (
            GOOD.replace(b"\x04\0\x96", b"\x06\x7f\xff\xff"),
            "bad_value",
            "schema 1: field 'price' has a value that decimal(6,2) cannot hold",
        ),
        (GOOD.replace(b"\x04\0\x96", b"\0"), "bad_value", "schema 1: field 'price' has a value"),
        (
            framed(1, encoded(FIRST, ROW | {"at": 2**62})),
            "bad_value",
            "schema 1: field 'at' has a value that timestamp cannot hold",
        ),
    ],
)
def test_a_record_that_cannot_be_read(value: bytes | None, reason: str, error: str) -> None:
    """It spoils no other, whatever its lengths are."""
    parsed = parse({1: FIRST}, GOOD, value, GOOD)

    [rejection] = parsed.rejections
    assert (rejection.at, rejection.reason, rejection.value) == (1, reason, value)
    assert rejection.error.startswith(error)
    assert parsed.rows.to_pylist() == [ROW, ROW]


def test_null_in_a_column_that_has_a_value() -> None:
    schema = record(item_id=["null", "long"], price=PRICE, at=MICROS)

    parsed = one(schema, ROW | {"item_id": None})

    assert [(each.reason, each.error) for each in parsed.rejections] == [
        ("missing_field", "schema 1: field 'item_id' is null")
    ]


def test_fields_that_are_no_columns_are_counted() -> None:
    inner = {
        "type": "record",
        "name": "Inner",
        "fields": [{"name": "a", "type": {"type": "map", "values": "int"}}],
    }
    schema = record(x={"type": "array", "items": inner}, item_id="long", price=PRICE, at=MICROS)
    value = ROW | {"x": [{"a": {"b": 1}}, {"a": {}}]}

    parsed = parse(
        {1: schema, 2: FIRST},
        framed(1, encoded(schema, value)),
        framed(2, encoded(FIRST, ROW)),
        ignoring=True,
    )

    assert parsed.rows.to_pylist() == [ROW | {"note": None}, ROW]
    assert parsed.extra == 1


@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("count", [1, 100])
def test_blocks_of_arrays(sized: bool, count: int) -> None:
    """A block may have its size in front; then its items are not looked at."""
    schema = record(x={"type": "array", "items": "string"}, item_id="long")
    block = b"\3\x08\2a\2b" if sized else b"\4\2a\2b"
    good = framed(1, block + block + b"\0\x0e")
    bad = (
        framed(1, b"\4\2a" + HUGE + b"\0\x0e"),
        framed(1, b"\3" + HUGE + b"\0\x0e"),
        framed(1, HUGE + b"\0\x0e"),
    )

    parsed = parse({1: schema}, *([good] * count), *bad, ignoring=True, columns={"item_id": "long"})

    assert parsed.rows.to_pylist() == [{"item_id": 7}] * count
    assert [each.reason for each in parsed.rejections] == ["malformed"] * 3


def test_items_without_bytes() -> None:
    """An array of nulls may have any number of them."""
    schema = record(x={"type": "array", "items": "null"}, item_id="long")

    parsed = parse({1: schema}, framed(1, HUGE + b"\0\x0e"), ignoring=True, columns={"item_id": "long"})

    assert parsed.rows.to_pylist() == [{"item_id": 7}]


@pytest.mark.parametrize("count", [1, 100])
def test_items_that_are_no_values(count: int) -> None:
    """Nobody reads the items of such an array, but a record of other bytes is none of its schema."""
    schema = record(x={"type": "array", "items": ["boolean", "int"]}, item_id="long")
    good, no_boolean, no_int = (
        framed(1, b"\4\0\1" + item + b"\0\x0e") for item in (b"\0\0", b"\0\2", b"\2\x80\x80\x80\x80\x10")
    )

    parsed = parse(
        {1: schema}, *([good] * count), no_boolean, no_int, ignoring=True, columns={"item_id": "long"}
    )

    assert parsed.rows.to_pylist() == [{"item_id": 7}] * count
    assert [each.reason for each in parsed.rejections] == ["malformed"] * 2


def test_punctuations() -> None:
    """A key is closed, and heartbeats and lists are promises. A union has both rows and punctuations."""
    both = [FIRST, PUNCTUATION]
    closed = {"punctuation": '{"item_id": {"equals": 9}}'}
    values = [
        framed(2, punctuation({"item_id": {"equals": 7}})),
        framed(2, punctuation({"item_id": {"one_of": [7, 8]}})),
        framed(2, punctuation({"at": {"between": {"to": "2026-01-31T00:00:00Z"}}})),
        framed(3, encoded(both, ("endmark.Punctuation", closed))),
        framed(3, encoded(both, ("shop.Bid", ROW))),
        framed(3, b"\4"),
        framed(2, punctuation({"price": {"equals": "1.50"}})),
        framed(2, encoded(PUNCTUATION, {"punctuation": '{"item_id": {"equals": 1}}, "x": {}'})),
    ]

    parsed = parse({2: PUNCTUATION, 3: both}, *values)

    assert parsed.closed_keys.to_pylist() == [{"item_id": 7}, {"item_id": 9}]
    assert parsed.closed_keys_at.tolist() == [0, 3]
    assert [(at, dict(promise.patterns)) for at, promise in parsed.promises] == [
        (1, {"item_id": OneOf(frozenset([7, 8]))}),
        (2, {"at": Between(None, AT)}),
    ]
    assert parsed.rows.to_pylist() == [ROW]
    assert [(each.at, each.reason, each.value) for each in parsed.rejections] == [
        (5, "malformed", values[5]),
        (6, "bad_punctuation", values[6]),
        (7, "bad_punctuation", values[7]),
    ]


def test_a_punctuation_without_its_text_is_of_no_schema() -> None:
    other = PUNCTUATION | {"fields": [{"name": "punctuation", "type": "bytes"}]}

    [rejection] = parse({2: other}, framed(2, b"\2a")).rejections

    assert rejection.reason == "bad_schema"
    assert rejection.error == "schema 2: endmark.Punctuation has no field 'punctuation' of type string"


def test_records_without_a_frame() -> None:
    """A file has the schema of them all."""
    file = SchemaFile("bids.avsc", json.dumps([FIRST, PUNCTUATION]))
    kinds = {name: ColumnType.parse(kind) for name, kind in COLUMNS.items()}
    parser = AvroParser(RecordSpec(kinds, ("item_id",), "bids", key=("item_id",)), file)
    row = encoded([FIRST, PUNCTUATION], ("shop.Bid", ROW))

    parsed = parser.parse(
        pa.array([row, row[:-1], b"\2" + punctuation({"item_id": {"equals": 7}})], pa.binary())
    )

    assert parsed.rows.to_pylist() == [ROW]
    assert parsed.closed_keys.to_pylist() == [{"item_id": 7}]
    [rejection] = parsed.rejections
    assert rejection.error.startswith("schema bids.avsc: the bytes are no value of it")


def test_a_registry_that_is_away_stops_the_parser() -> None:
    class Away(Schemas):
        def schema(self, number: int) -> Schema:
            raise RegistryUnreachableError("away")

    parser = AvroParser(RecordSpec({"item_id": ColumnType.LONG}, (), "bids", key=()), Away())
    with pytest.raises(RegistryUnreachableError):
        parser.parse(pa.array([framed(1, b"\2")], pa.binary()))
    assert parser.parse(pa.array([], pa.binary())).rows.num_rows == 0


@pytest.mark.parametrize(
    ("column", "kind", "value", "sound"),
    [
        ("int", "long", 2**31 - 1, True),
        ("int", "long", 2**31, False),
        ("float", "double", 3.4028235e38, True),
        ("float", "double", 1e39, False),
        ("double", "double", float("nan"), False),
        ("double", "float", float("-inf"), False),
        ("date", logical("int", "date"), date(9999, 12, 31), True),
        ("date", logical("int", "date"), 2_932_897, False),
        ("timestamp(s)", "long", 253_402_300_799, True),
        ("timestamp(s)", "long", 253_402_300_800, False),
        (
            "decimal(38,0)",
            logical("bytes", "decimal", precision=38),
            b"\x4b\x3b\x4c\xa8\x5a\x86\xc4\x7a\x09\x8a\x22\x3f\xff\xff\xff\xff",
            True,
        ),
        (
            "decimal(38,0)",
            logical("bytes", "decimal", precision=38),
            b"\x4b\x3b\x4c\xa8\x5a\x86\xc4\x7a\x09\x8a\x22\x40\0\0\0\0",
            False,
        ),
        ("decimal(38,0)", logical("bytes", "decimal", precision=38), b"\x80" + bytes(15), False),
        ("decimal(6,2)", logical("bytes", "decimal", precision=4, scale=2), b"\xff" * 40, True),
        ("decimal(6,2)", logical("bytes", "decimal", precision=4, scale=2), b"\0" + b"\xff" * 16, False),
    ],
)
def test_the_ends_of_ranges(column: str, kind: Any, value: Any, sound: bool) -> None:
    schema = record(c=kind)
    if isinstance(value, bytes):
        encodes, value = record(c="bytes"), {"c": value}
    else:
        encodes, value = schema, {"c": value}
    parser = AvroParser(
        RecordSpec({"c": ColumnType.parse(column)}, (), "s", key=()), Schemas({1: json.dumps(schema)})
    )

    parsed = parser.parse(pa.array([framed(1, encoded(encodes, value))], pa.binary()))

    assert parsed.rows.num_rows == sound
    assert [each.reason for each in parsed.rejections] == ([] if sound else ["bad_value"])


def test_the_mark_of_a_deleted_row_is_never_ignored() -> None:
    """A flattened change of Debezium would else be a row like others, after the row was deleted."""
    schema = record(item_id="long", price=PRICE, note="string", at=MICROS, __deleted="string")

    parsed = one(schema, ROW | {"__deleted": "true"}, ignoring=True)

    [rejection] = parsed.rejections
    assert (parsed.rows.num_rows, rejection.reason) == (0, "unknown_field")
    assert "'__deleted' says whether a row was deleted, so it is never ignored; " in rejection.error
