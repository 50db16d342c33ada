"""Debezium's envelopes in Avro: what each is, in its place, and the types that Kafka Connect names."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from endmark.pipeline import Stream
from endmark.pipeline.formats import FORMATS
from endmark.punctuation.pattern import Between, Equals
from endmark.schemas.registry import Schema, SchemaFile
from endmark.types import ColumnType
from endmark.wire.avro.records import AvroParser
from endmark.wire.framed_records import FramedParser
from endmark.wire.json.records import Parsed
from endmark.wire.record_spec import RecordSpec
from endmark.wire.rejection import UnreadableError
from endmark.wire.unavailable_values import without_unavailable
from support.avro_records import Schemas
from support.avro_registry import (
    ENVELOPE,
    PUNCTUATION,
    connected,
    encoded,
    envelope_schema,
    framed,
    logical,
    punctuation,
)

COLUMNS = {"order_id": "long", "who": "string?", "total": "decimal(6,2)", "at": "timestamp"}
AT = datetime(2026, 1, 31, 12, 0, 0, 123456, UTC)
MICROS = connected("long", "io.debezium.time.MicroTimestamp")
TOTAL = connected(
    "bytes", "org.apache.kafka.connect.data.Decimal", logicalType="decimal", scale=2, precision=6
)
FIELDS: list[dict[str, Any]] = [
    {"name": "order_id", "type": "int"},
    {"name": "who", "type": ["null", "string"], "default": None},
    {"name": "total", "type": TOTAL},
    {"name": "at", "type": MICROS},
]
VALUE: dict[str, Any] = {
    "type": "record",
    "name": "Value",
    "namespace": "shop.table",
    "fields": FIELDS,
    "connect.name": "shop.table.Value",
}
SCHEMA = envelope_schema(["null", VALUE], ["null", "shop.table.Value"])
Record = dict[str, Any]


def order(number: int) -> Record:
    return {"order_id": number, "who": "Ann", "total": Decimal("1.50"), "at": AT}


def written(row: Record | None) -> Record | None:
    """The row as the converter writes it: a number of microseconds."""
    return None if row is None else row | {"at": int(row["at"].timestamp() * 1_000_000)}


def change(op: str | None, before: Record | None, after: Record | None, schema: Any = SCHEMA) -> bytes:
    return framed(
        1, encoded(schema, ENVELOPE | {"op": op, "before": written(before), "after": written(after)})
    )


def parser(
    *,
    updates: bool = False,
    on: tuple[str, ...] = ("order_id",),
    key: tuple[str, ...] = ("order_id",),
    schemas: Any = None,
    **stream: Any,
) -> FramedParser:
    declared = {"topic": "t", "format": "debezium_avro", "columns": COLUMNS, "event_time": {"column": "at"}}
    declared |= {"updates": "rows" if updates else "dead_letter", "punctuated_on": list(on), **stream}
    schemas = schemas or Schemas({1: json.dumps(SCHEMA), 2: json.dumps(PUNCTUATION)})
    made = FORMATS["debezium_avro"].parser(Stream.model_validate(declared), "orders", key, on, schemas)
    assert isinstance(made, FramedParser)
    return made


def parse(*values: bytes | None, **options: Any) -> Parsed:
    return parser(**options).parse(pa.array(values, pa.binary()))


def test_rows_are_inserted_or_read_and_deletions_close() -> None:
    parsed = parse(change("c", None, order(1)), change("d", order(2), None), change("r", None, order(4)))

    assert parsed.rows.to_pylist() == [order(1), order(4)]
    assert parsed.row_at.tolist() == [0, 2]
    assert (parsed.closed_keys.to_pylist(), parsed.closed_keys_at.tolist()) == ([{"order_id": 2}], [1])
    assert (parsed.skipped, parsed.rejections, parsed.promises) == (0, [], [])


def test_an_update_is_a_row_where_it_is_declared_to_be_one() -> None:
    values = change("u", order(1), order(2)), change("u", None, order(3))

    assert parse(*values, updates=True).rows.to_pylist() == [order(2), order(3)]
    [first, second] = parse(*values).rejections
    assert (first.at, first.reason, first.value, second.at) == (0, "update", values[0], 1)
    assert first.error.startswith("schema 1: the stream takes no updates; `updates: rows`")


def test_a_primary_key_beside_the_join_key_is_promised() -> None:
    parsed = parse(change("d", order(4), None), key=("who",))

    [(at, promise)] = parsed.promises
    assert (at, promise.patterns) == (0, (("order_id", Equals(4)),))


def test_deletions_without_effect_are_skipped() -> None:
    """Whatever their image is. A torn one is a dead letter."""
    other = envelope_schema(["null", "string"], ["null", VALUE])
    schemas = Schemas({1: json.dumps(SCHEMA), 3: json.dumps(other)})
    odd = framed(3, encoded(other, ENVELOPE | {"op": "d", "before": "x", "after": None}))
    good, none = change("d", order(4), None), change("d", None, None)

    parsed = parse(good, none, odd, good[:-1], change("c", None, order(5)), on=(), schemas=schemas)

    assert (parsed.skipped, parsed.row_at.tolist(), parsed.closed_keys.num_rows) == (3, [4], 0)
    assert [(each.at, each.reason) for each in parsed.rejections] == [(3, "malformed")]


def test_a_punctuation_deletes_no_key() -> None:
    """A record that is a punctuation promises something, or is a heartbeat. Deletions alone name keys."""
    values = [
        framed(2, punctuation({"order_id": {"equals": 7}})),
        framed(2, punctuation({"at": {"between": {"to": "2026-01-31T00:00:00Z"}}})),
        change("d", order(8), None),
        framed(2, punctuation({"who": {"equals": "Ann"}})),
    ]

    parsed = parse(*values)

    assert parsed.closed_keys.to_pylist() == [{"order_id": 8}]
    assert [(at, dict(promise.patterns)) for at, promise in parsed.promises] == [
        (0, {"order_id": Equals(7)}),
        (1, {"at": Between(None, datetime(2026, 1, 31, tzinfo=UTC))}),
    ]
    assert [(each.at, each.reason) for each in parsed.rejections] == [(3, "bad_punctuation")]


def without(schema: Any, name: str) -> Any:
    return schema | {"fields": [field for field in schema["fields"] if field["name"] != name]}


@pytest.mark.parametrize(
    ("schema", "value", "reason", "error"),
    [
        (SCHEMA, change("c", order(1), None), "bad_envelope", "'after', which is a record here"),
        (SCHEMA, change("d", None, None), "bad_envelope", "'before', which is a record here"),
        (SCHEMA, change("t", None, None), "bad_envelope", "op 't' says that the table was emptied"),
        (SCHEMA, change("", None, order(1)), "bad_envelope", "op '' is none of c, r, u and d"),
        (SCHEMA, change("cr", None, order(1)), "bad_envelope", "op 'cr' is none of c, r, u and d"),
        (SCHEMA, change("c", None, order(1))[:-1], "malformed", "the bytes are no value of it"),
        (SCHEMA, change("c", None, order(1)) + b"\0", "malformed", "others stand behind the value"),
        (SCHEMA, change("c", None, order(1)).replace(b"\6Ann", b"\6A\xffn"), "not_utf8", "field 'who'"),
        (SCHEMA, change("c", None, order(1)).replace(b"\2c", b"\2\xff"), "not_utf8", "field 'op'"),
        (SCHEMA, change("c", None, order(1) | {"total": Decimal("9999")}), "", ""),
        (SCHEMA, change("c", None, order(1) | {"total": Decimal("99999")}), "bad_value", "field 'total'"),
        (VALUE, framed(1, encoded(VALUE, written(order(1)))), "bad_envelope", "'op', which is a text here"),
        (without(SCHEMA, "after"), b"", "bad_envelope", "'after', which is a record here"),
        (
            envelope_schema(["null", "int"], without(VALUE, "total")),
            b"",
            "missing_field",
            "schema 1: the schema has no field 'total'",
        ),
        (
            envelope_schema(["null", "int"], without(VALUE, "at") | {"name": "Other"}),
            b"",
            "missing_field",
            "schema 1: the schema has no field 'at'",
        ),
        (
            envelope_schema(["null", "int"], VALUE | {"fields": [*FIELDS, {"name": "x", "type": "int"}]}),
            b"",
            "unknown_field",
            "schema 1: field 'x' is not declared; declared are order_id, who, total, at",
        ),
    ],
)
def test_what_is_no_change_says_why(schema: Any, value: bytes, reason: str, error: str) -> None:
    """Its bytes are kept, and good records around it are read. A schema's name is in the error."""
    if not value:
        row = written(order(1)) or {}
        value = framed(1, encoded(schema, ENVELOPE | {"op": "c", "before": None, "after": row | {"x": 1}}))
    good = framed(2, change("r", None, order(9))[5:])
    schemas = Schemas({1: json.dumps(schema), 2: json.dumps(SCHEMA)})

    parsed = parse(good, value, good, schemas=schemas)

    assert [row["order_id"] for row in parsed.rows.to_pylist()] == ([9, 9] if reason else [9, 1, 9])
    found = [(each.at, each.reason, each.value) for each in parsed.rejections]
    assert found == ([(1, reason, value)] if reason else [])
    assert all(error in each.error and each.error.startswith("schema 1: ") for each in parsed.rejections)


@pytest.mark.parametrize(
    ("before", "error"),
    [
        (without(VALUE, "order_id"), "`before`: the schema has no field 'order_id'"),
        (
            VALUE | {"fields": [{"name": "order_id", "type": "string"}]},
            "`before`: field 'order_id' must be readable as long, but is string",
        ),
        (
            VALUE | {"fields": [{"name": "order_id", "type": ["null", "int"]}]},
            "`before`: field 'order_id' is null",
        ),
    ],
)
def test_a_deletion_that_names_no_key(before: Any, error: str) -> None:
    schema = envelope_schema(["null", before], ["null", VALUE | {"name": "Other"}])
    image: dict[str, Any] = {"who": None, "total": Decimal(1), "at": 1}
    image |= {"order_id": "7" if before["fields"][0]["type"] == "string" else None}
    value = framed(1, encoded(schema, ENVELOPE | {"op": "d", "before": image, "after": None}))

    [rejection] = parse(value, schemas=Schemas({1: json.dumps(schema)})).rejections

    assert rejection.reason == "bad_punctuation"
    assert rejection.error == f"schema 1: {error}; a deletion names the whole primary key"


def test_a_column_within_a_record_of_an_image() -> None:
    """Some records have fields that are ignored, and are counted."""
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "id", "type": "long"}]}
    fields = [{"name": "of", "type": ["null", inner]}, {"name": "at", "type": MICROS}]
    value = {"type": "record", "name": "Row", "fields": [*fields, {"name": "more", "type": "int"}]}
    schema = envelope_schema(["null", value], ["null", "shop.table.Row"])
    image = {"of": {"id": 5}, "at": 0, "more": 1}
    values = [
        framed(
            1, encoded(schema, ENVELOPE | {"op": op, "before": image, "after": image if op == "c" else None})
        )
        for op in "cd"
    ]

    parsed = parse(
        *values,
        schemas=Schemas({1: json.dumps(schema)}),
        columns={"order_id": "long", "at": "timestamp"},
        taken_from={"order_id": "value.of.id"},
        extra="ignore",
    )

    assert [row["order_id"] for row in parsed.rows.to_pylist()] == [5]
    assert parsed.closed_keys.to_pylist() == [{"order_id": 5}]
    assert parsed.extra == 1


def test_a_file_without_the_columns_is_refused() -> None:
    schema = envelope_schema(["null", VALUE], ["null", without(VALUE, "total") | {"name": "Other"}])
    file = SchemaFile("orders.avsc", json.dumps(schema))

    parser(schemas=file).require(Schema(json.dumps(SCHEMA)))
    with pytest.raises(UnreadableError, match="the schema has no field 'total'"):
        parser(schemas=file).require(file.schema())


CONNECT = "org.apache.kafka.connect.data"


def timed(kind: str, name: str) -> dict[str, Any]:
    """A time of Debezium."""
    return connected(kind, f"io.debezium.time.{name}")


def instant(microseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)


@pytest.mark.parametrize(
    ("kind", "value", "column", "found"),
    [
        (timed("int", "Date"), 20_484, "date", date(2026, 1, 31)),
        (timed("int", "Date"), 20_484, "date(days)", date(2026, 1, 31)),
        (timed("int", "Date"), 20_484, "long", 20_484),
        (timed("int", "Date"), 20_484, "timestamp(s)", None),
        (
            timed("long", "Timestamp"),
            1000,
            "timestamp",
            instant(1_000_000),
        ),
        (timed("long", "Timestamp"), 1000, "timestamp(us)", None),
        (
            timed("long", "MicroTimestamp"),
            7,
            "timestamp(us)",
            instant(7),
        ),
        (timed("long", "NanoTimestamp"), 7, "timestamp", None),
        (timed("long", "NanoTimestamp"), 7, "long", 7),
        (timed("long", "NanoTime"), 7, "timestamp(us)", None),
        (timed("long", "NanoTime"), 7, "long", 7),
        (timed("string", "ZonedTimestamp"), "2026-01-31T12:00:00.123456Z", "timestamp", AT),
        (
            timed("string", "ZonedTimestamp"),
            "2026-01-31T13:00:00.123456+01:00",
            "timestamp",
            AT,
        ),
        (timed("string", "ZonedTimestamp"), "2026-01-31", "string", "2026-01-31"),
        (timed("string", "ZonedTimestamp"), "2026-01-31T12:00:00Z", "timestamp(ms)", None),
        ("string", "2026-01-31T12:00:00Z", "timestamp", None),
        (connected("string", "io.debezium.data.Enum"), "a", "string", "a"),
        (connected("int", f"{CONNECT}.Date", logicalType="date"), 20_484, "date", date(2026, 1, 31)),
        (connected("int", f"{CONNECT}.Date"), 20_484, "date", date(2026, 1, 31)),
        (connected("int", f"{CONNECT}.Time", logicalType="time-millis"), 20_484, "timestamp(ms)", None),
        (connected("long", f"{CONNECT}.Timestamp"), 0, "timestamp", instant(0)),
        (connected("long", f"{CONNECT}.Timestamp"), 0, "timestamp(s)", None),
        (connected("int", "shop.Days"), 20_484, "date(days)", date(2026, 1, 31)),
    ],
)
def test_types_that_kafka_connect_names(kind: Any, value: Any, column: str, found: Any) -> None:
    """In any records of Avro, such as flattened changes. A column that does not take the type has `None`."""
    schema = {"type": "record", "name": "Row", "fields": [{"name": "c", "type": ["null", kind]}]}
    texts = Schemas({1: json.dumps(schema)})
    made = AvroParser(RecordSpec({"c": ColumnType.parse(column)}, (), "s", key=()), texts)
    plain = schema | {"fields": [{"name": "c", "type": ["null", kind if kind == "string" else kind["type"]]}]}

    parsed = made.parse(pa.array([framed(1, encoded(plain, {"c": value}))], pa.binary()))

    assert parsed.rows.to_pylist() == ([] if found is None else [{"c": found}])
    assert [each.reason for each in parsed.rejections] == (["wrong_type"] if found is None else [])


@pytest.mark.parametrize(
    ("text", "reason"),
    [("2026-02-30T12:00:00Z", "bad_value"), ("noon", "bad_value"), ("", "bad_value"), (b"\xff", "not_utf8")],
)
def test_times_with_a_zone_that_are_none(text: Any, reason: str) -> None:
    zoned = timed("string", "ZonedTimestamp")
    schema = {"type": "record", "name": "Row", "fields": [{"name": "c", "type": zoned}]}
    made = AvroParser(
        RecordSpec({"c": ColumnType.TIMESTAMP}, (), "s", key=()), Schemas({1: json.dumps(schema)})
    )
    texts = [text if isinstance(text, bytes) else text.encode(), b"2026-01-31T12:00:00.123456Z"]

    parsed = made.parse(pa.array([framed(1, bytes([2 * len(each)]) + each) for each in texts], pa.binary()))

    assert [(each.at, each.reason) for each in parsed.rejections] == [(0, reason)]
    assert parsed.rows.to_pylist() == [{"c": AT}]


def test_a_logical_type_of_avro_counts_before_the_name_of_connect() -> None:
    kind = logical("long", "timestamp-millis") | {"connect.name": "io.debezium.time.MicroTimestamp"}
    schema = {"type": "record", "name": "Row", "fields": [{"name": "c", "type": kind}]}
    made = AvroParser(
        RecordSpec({"c": ColumnType.TIMESTAMP}, (), "s", key=()), Schemas({1: json.dumps(schema)})
    )

    parsed = made.parse(pa.array([framed(1, b"\2")], pa.binary()))

    assert parsed.rows.to_pylist() == [{"c": instant(1000)}]


def test_a_row_without_a_value_that_the_database_did_not_log_is_rejected() -> None:
    values = [
        change("u", None, order(number) | {"who": who})
        for number, who in enumerate(["Ann", "__debezium_unavailable_value", None])
    ]

    parsed = without_unavailable(parse(*values, updates=True), pa.array(values, pa.binary()))

    assert [row["who"] for row in parsed.rows.to_pylist()] == ["Ann", None]
    [rejection] = parsed.rejections
    assert (rejection.at, rejection.reason, rejection.value) == (1, "unavailable", values[1])
