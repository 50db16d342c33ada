"""Protobuf records: what each change of a schema does, how defects are told, and punctuations."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from endmark.punctuation.pattern import Between, OneOf
from endmark.schemas.proto_compiler import ProtoSchemaError, compile_schema
from endmark.schemas.registry import Schema, SchemaFile
from endmark.types import ColumnType
from endmark.wire.json.records import Parsed
from endmark.wire.protobuf.records import ProtoParser
from endmark.wire.record_spec import RecordSpec
from endmark.wire.rejection import UnreadableError
from support.avro_records import Schemas
from support.proto_registry import PUNCTUATION, encoded, framed, punctuation

COLUMNS = {"item_id": "long", "price": "decimal(6,2)", "note": "string?", "at": "timestamp", "size": "string"}
AT = datetime(2026, 1, 31, 0, 0, 0, 123456, UTC)
ROW = {"item_id": 7, "price": Decimal("1.50"), "note": "n", "at": AT, "size": "M"}
VALUE = {"item_id": 7, "price": "1.50", "note": "n", "at": "2026-01-31T00:00:00.123456Z", "size": "M"}


def schema(fields: str, *, more: str = "", syntax: str = "proto3") -> str:
    return f"""
        syntax = "{syntax}";
        package shop;
        import "google/protobuf/timestamp.proto";
        enum Size {{ S = 0; M = 1; }}
        message Bid {{ {fields} }}
        {more}
    """


FIELDS = "int64 item_id = 1; string price = 2; optional string note = 3; {}; Size size = 5;"
TIME = "google.protobuf.Timestamp at = 4"
FIRST = schema(FIELDS.format(TIME))


def parse(
    schemas: dict[int, str], *values: bytes | None, ignoring: bool = False, columns: dict[str, str] = COLUMNS
) -> Parsed:
    kinds = {name: ColumnType.parse(kind) for name, kind in columns.items()}
    paths = {name: tuple(name.split("__")) for name in kinds}
    parser = ProtoParser(
        RecordSpec(
            kinds, ("item_id",), "bids", key=("item_id",), heartbeat_on="at", ignoring=ignoring, paths=paths
        ),
        Schemas(dict(schemas)),
    )
    return parser.parse(pa.array(values, pa.binary()))


def bid(text: str, value: Any = VALUE, number: int = 1) -> bytes:
    return framed(number, encoded(text, "shop.Bid", value))


@pytest.mark.parametrize(
    ("changed", "value", "note"),
    [
        (schema(FIELDS.format(TIME).replace("int64", "int32")), VALUE, "n"),
        (schema(FIELDS.format(TIME).replace("optional string note = 3", "string note = 9")), VALUE, "n"),
        (schema(FIELDS.format(TIME).replace("optional string note = 3;", "")), VALUE | {"note": None}, None),
        (schema(FIELDS.format(TIME)), VALUE | {"note": None}, None),
        (schema(FIELDS.format(TIME)), VALUE | {"note": ""}, ""),
        (
            schema(FIELDS.format(TIME).replace("optional string note = 3", "string note = 3")),
            VALUE | {"note": None},
            "",
        ),
        (
            schema(
                FIELDS.format(TIME).replace(
                    "optional string note = 3;", "oneof o { string note = 3; int32 x = 9; }"
                )
            ),
            VALUE,
            "n",
        ),
    ],
    ids=["narrower", "other number", "gone", "null", "empty", "default", "one of"],
)
def test_a_schema_that_still_gives_the_columns(changed: str, value: Any, note: str | None) -> None:
    """Records by the old and by the new one are read side by side."""
    old, new = bid(FIRST), bid(changed, {key: each for key, each in value.items() if each is not None}, 2)

    parsed = parse({1: FIRST, 2: changed}, new, old, new, ignoring="oneof" in changed)

    assert parsed.rejections == []
    assert parsed.row_at.tolist() == [0, 1, 2]
    assert parsed.rows.to_pylist() == [ROW | {"note": note}, ROW, ROW | {"note": note}]


@pytest.mark.parametrize(
    ("changed", "reason", "error"),
    [
        (
            FIRST.replace("string price", "double price"),
            "wrong_type",
            "schema 5: field 'price' must be readable as decimal(6,2), but is double",
        ),
        (
            FIRST.replace("int64 item_id", "repeated int64 item_id"),
            "wrong_type",
            "schema 5: field 'item_id' must be readable as long, but is repeated int64",
        ),
        (
            FIRST.replace("google.protobuf.Timestamp at", "int64 at"),
            "wrong_type",
            "schema 5: field 'at' must be readable as timestamp, but is int64",
        ),
        (
            FIRST.replace("price = 2", "cost = 2"),
            "unknown_field",
            "schema 5: field 'cost' is not declared; declared",
        ),
        (
            FIRST.replace("string price = 2;", ""),
            "missing_field",
            "schema 5: the schema has no field 'price'",
        ),
        (FIRST.replace("Size size = 5", "Sizes size = 5"), "bad_schema", "schema 5: 6:"),
        ("{}", "bad_schema", "schema 5: 1:1"),
        ("", "malformed", "schema 5: the record begins with the indexes [0], which are of no message"),
    ],
)
def test_a_schema_that_does_not_give_the_columns(changed: str, reason: str, error: str) -> None:
    """Its records are dead letters that name it; records by others are read."""
    bad = framed(5, b"\x08\x01")

    parsed = parse({1: FIRST, 5: changed}, bad, bid(FIRST))

    [rejection] = parsed.rejections
    assert (rejection.at, rejection.reason, rejection.value) == (0, reason, bad)
    assert rejection.error.startswith(error)
    assert parsed.rows.to_pylist() == [ROW]


GOOD = bid(FIRST)
HUGE = b"\xff\xff\xff\xff\x0f"


@pytest.mark.parametrize(
    ("value", "reason", "error"),
    [
        (b"", "empty", "the record has no value"),
        (b"{}", "malformed", "a record begins with a zero byte and the id of its schema in four bytes"),
        (framed(9, b"\2"), "unknown_schema", "schema 9: the registry has no such schema"),
        (
            framed(1, b"")[:-1],
            "malformed",
            "schema 1: the record does not begin with the indexes",
        ),
        (
            framed(1, b"", 1),
            "malformed",
            "schema 1: the record begins with the indexes [1], which",
        ),
        (GOOD[:-1], "malformed", "schema 1: the bytes are no value of it"),
        (GOOD + b"\x0a", "malformed", "schema 1: the bytes are no value of it"),
        (GOOD + b"\x12" + HUGE, "malformed", "schema 1: the bytes are no value of it"),
        (GOOD + b"\x32" + HUGE, "malformed", "schema 1: the bytes are no value of it"),
        (GOOD + b"\x00", "malformed", "schema 1: the bytes are no value of it"),
        (GOOD + b"\x33\x08\x05", "malformed", "schema 1: the bytes are no value of it"),
        (GOOD + b"\x1a\x01\xff", "not_utf8", "schema 1: the text of field 'note' is not UTF-8"),
        (
            GOOD + b"\x12\x03abc",
            "bad_value",
            "schema 1: field 'price' has a value that decimal(6,2) cannot hold",
        ),
        (GOOD + b"\x22\x02\x10\x7f", "", ""),
        (GOOD + b"\x22\x0b\x10" + b"\xff" * 9 + b"\x01", "bad_value", "schema 1: field 'at' has a value"),
        (
            framed(1, encoded(FIRST, "shop.Bid", {"price": "1"})),
            "missing_field",
            "schema 1: field 'at' is null",
        ),
    ],
)
def test_a_record_that_cannot_be_read(value: bytes, reason: str, error: str) -> None:
    """It spoils no other, whatever its lengths are."""
    parsed = parse({1: FIRST}, GOOD, value, GOOD)

    assert parsed.rows.num_rows == (2 if reason else 3)
    found = [(each.at, each.reason, each.value) for each in parsed.rejections]
    assert found == ([(1, reason, value)] if reason else [])
    assert all(each.error.startswith(error) for each in parsed.rejections)


GROUP = b"\x33%b\x34"  # of field 6, which the schema does not declare


@pytest.mark.parametrize(
    ("inner", "is_read"),
    [
        (b"", True),
        (b"\x08\x96\x01", True),
        (b"\x09" + b"\x34" * 8 + b"\x15" + b"\x34" * 4, True),
        (b"\x12\x02\x34\x34", True),
        (b"\x1b\x08\x01\x1c" * 2, True),
        (b"\x1b" * 100 + b"\x1c" * 100, False),
        (b"\x1b", False),
        (b"\x1b\x24", False),
        (b"\x0f", False),
        (b"\x12\x7f", False),
    ],
    ids=["empty", "number", "wide", "sized", "groups", "deep", "open", "other end", "unknown", "too long"],
)
@pytest.mark.parametrize("count", [1, 100])
def test_groups_of_other_schemas(inner: bytes, is_read: bool, count: int) -> None:
    """A field that looks like the end of the group, but is inside another one, does not end it."""
    value = GOOD + GROUP % inner * count

    parsed = parse({1: FIRST}, GOOD, value)

    assert parsed.rows.to_pylist() == [ROW] * (2 if is_read else 1)
    found = [(each.at, each.reason, each.value) for each in parsed.rejections]
    assert found == ([] if is_read else [(1, "malformed", value)])


def test_the_last_field_counts_and_messages_are_merged() -> None:
    """A field of a group of which a record has one forgets the others."""
    text = schema(
        "message Inner { optional int32 a = 1; optional int32 b = 2; } "
        "Inner in = 1; oneof o { int32 x = 2; string y = 3; Inner z = 4; } int64 item_id = 5;"
    )
    columns = {
        "item_id": "long",
        "in__a": "long?",
        "in__b": "long?",
        "x": "long?",
        "y": "string?",
        "z__a": "long?",
    }
    parts = {
        "a": b"\x0a\x02\x08\x01",
        "b": b"\x0a\x02\x10\x02",
        "x": b"\x10\x03",
        "y": b"\x1a\x01y",
        "z": b"\x22\x02\x08\x04",
    }
    nothing: dict[str, Any] = dict.fromkeys(columns) | {"item_id": 0}
    cases: dict[str, dict[str, Any]] = {
        "ab": {"in__a": 1, "in__b": 2},
        "aba": {"in__a": 1, "in__b": 2},
        "xy": {"y": "y"},
        "yx": {"x": 3},
        "zx": {"x": 3},
        "xyz": {"z__a": 4},
        "zyz": {"z__a": 4},
    }

    for count in (1, 100):  # the latter are shortened before they are read
        values = [framed(1, b"".join(parts[part] for part in case) * count) for case in cases]
        parsed = parse({1: text}, *values, columns=columns, ignoring=True)
        assert parsed.rows.to_pylist() == [nothing | found for found in cases.values()]


def test_many_messages_of_a_file() -> None:
    """The indexes of each record lead to its message, and a long one is the same as a short one."""
    text = schema(
        "int64 item_id = 1; message In { int64 item_id = 2; }", more="message Two { int64 item_id = 3; }"
    )
    values = [
        framed(1, b"\x08\x01"),
        framed(1, b"\x10\x02", 0, 0),
        framed(1, b"\x18\x03", 1),
        framed(1, b"\x08\x04", 0),
        framed(1, b"\x08\x04", 0, 1),
    ]

    parsed = parse({1: text}, *values, columns={"item_id": "long"})

    assert [row["item_id"] for row in parsed.rows.to_pylist()] == [1, 2, 3, 4]
    assert [(each.at, each.reason) for each in parsed.rejections] == [(4, "malformed")]


def test_fields_that_are_no_columns_are_counted() -> None:
    text = schema("int64 item_id = 1; repeated Bid bids = 2; map<string, Bid> named = 3;")
    value = encoded(
        text, "shop.Bid", {"item_id": "7", "bids": [{"item_id": "8"}], "named": {"a": {"item_id": "9"}}}
    )

    parsed = parse({1: text}, framed(1, value), columns={"item_id": "long"}, ignoring=True)

    assert (parsed.rows.to_pylist(), parsed.extra) == ([{"item_id": 7}], 1)


def test_punctuations() -> None:
    """A key is closed, and heartbeats and lists are promises."""
    values = [
        framed(2, punctuation({"item_id": {"equals": 7}})),
        framed(2, punctuation({"item_id": {"one_of": [7, 8]}}), 0),
        framed(2, punctuation({"at": {"between": {"to": "2026-01-31T00:00:00.123456Z"}}})),
        bid(FIRST),
        framed(2, punctuation({"price": {"equals": "1.50"}})),
        framed(2, b"\x08\x01"),
    ]

    parsed = parse({1: FIRST, 2: PUNCTUATION}, *values)

    assert (parsed.closed_keys.to_pylist(), parsed.closed_keys_at.tolist()) == ([{"item_id": 7}], [0])
    assert [(at, dict(promise.patterns)) for at, promise in parsed.promises] == [
        (1, {"item_id": OneOf(frozenset([7, 8]))}),
        (2, {"at": Between(None, AT)}),
    ]
    assert parsed.rows.to_pylist() == [ROW]
    assert [(each.at, each.reason, each.value) for each in parsed.rejections] == [
        (4, "bad_punctuation", values[4]),
        (5, "bad_punctuation", values[5]),
    ]


def test_records_without_a_frame() -> None:
    """They have the first message of the file."""
    kinds = {name: ColumnType.parse(kind) for name, kind in COLUMNS.items()}
    paths = {name: (name,) for name in kinds}
    file = SchemaFile("bids.proto", FIRST)
    parser = ProtoParser(RecordSpec(kinds, (), "bids", key=(), paths=paths), file)
    row = encoded(FIRST, "shop.Bid", VALUE)

    parsed = parser.parse(pa.array([row, row[:-1]], pa.binary()))

    assert parsed.rows.to_pylist() == [ROW]
    assert parsed.rejections[0].error.startswith("schema bids.proto: the bytes are no value of it")
    parser.require(Schema(FIRST))
    with pytest.raises(UnreadableError, match="the schema has no field 'size'"):
        parser.require(Schema(FIRST.replace("Size size = 5;", "")))
    with pytest.raises(UnreadableError, match="it has no message"):
        parser.require(Schema('syntax = "proto3";'))


def test_a_message_of_another_file() -> None:
    """The file imports a file that imports a third one, and one of Google's."""
    money = 'syntax = "proto3"; package money; message Money { Currency of = 2; int64 cents = 1; }'
    imports = (
        ("money.proto", money.replace("package", 'import "all/currency.proto"; package')),
        ("all/currency.proto", 'syntax = "proto3"; package money; enum Currency { SEK = 0; EUR = 1; }'),
    )
    order = """
        syntax = "proto3";
        package shop;
        import "money.proto";
        import "google/protobuf/timestamp.proto";
        message Order { money.Money paid = 1; google.protobuf.Timestamp at = 2; }
    """
    paths = {"cents": ("paid", "cents"), "currency": ("paid", "of"), "at": ("at",)}
    kinds = {"cents": "long", "currency": "string", "at": "timestamp"}
    parser = ProtoParser(
        RecordSpec(
            {name: ColumnType.parse(kind) for name, kind in kinds.items()}, (), "orders", key=(), paths=paths
        ),
        Schemas({1: order}, imports),
    )
    # An order by its bytes: 7 cents, of the currency with number 1, and 9 s since 1970.
    parsed = parser.parse(pa.array([framed(1, b"\x0a\x04\x08\x07\x10\x01\x12\x02\x08\x09")], pa.binary()))

    at = datetime(1970, 1, 1, 0, 0, 9, tzinfo=UTC)
    assert parsed.rows.to_pylist() == [{"cents": 7, "currency": "EUR", "at": at}]


def test_a_schema_of_kafka_connect_imports_what_no_registry_lists() -> None:
    text = """
        syntax = "proto3";
        import "confluent/meta.proto";
        import "confluent/type/decimal.proto";
        import "google/type/date.proto";
        import "google/type/timeofday.proto";
        message Bid {
            int64 item_id = 1 [(confluent.field_meta) = { doc: "the item" }];
            optional confluent.type.Decimal price = 2;
            optional google.type.Date day = 3;
            optional google.type.TimeOfDay hour = 4;
        }
    """
    columns = {"item_id": "long", "day__year": "long?"}
    value = {"item_id": 7, "day": {"year": 2026}, "price": {"precision": 4}}

    parsed = parse({1: text}, framed(1, encoded(text, "Bid", value)), ignoring=True, columns=columns)

    assert (parsed.rows.to_pylist(), parsed.rejections) == ([{"item_id": 7, "day__year": 2026}], [])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('syntax = "proto3"; message A { int64 id = ', "Expected"),
        ('syntax = "proto3"; import "shop/other.proto";', "shop/other.proto: File not found"),
        ('syntax = "proto3"; import "/etc/passwd";', "/etc/passwd"),
        ("message A {" * 5_000, "recursion"),
        ("x" * (1024 * 1024 + 1), "it has more than 1,048,576 letters"),
    ],
)
def test_texts_that_are_no_schema(text: str, error: str) -> None:
    with pytest.raises(ProtoSchemaError, match=re.escape(error)):
        compile_schema(text)


@pytest.mark.parametrize(
    "names",
    [["../a.proto"], ["/a.proto"], [""], ["a\0"], ["x" * 300], ["a", "a/b"], ["a/b", "a"], ["\ud800"]],
)
def test_names_of_imports_that_are_none(names: list[str]) -> None:
    """They come from a registry, and must not end a job."""
    with pytest.raises(ProtoSchemaError, match="it imports"):
        compile_schema('syntax = "proto3";', tuple((name, 'syntax = "proto3";') for name in names))


def test_an_import_may_have_any_usual_name() -> None:
    text = 'syntax = "proto3"; import "schema.proto"; message A { B b = 1; }'
    assert compile_schema(text, (("schema.proto", 'syntax = "proto3"; message B {}'),))


def test_the_mark_of_a_deleted_row_is_never_ignored() -> None:
    """A flattened change of Debezium would else be a row like others, after the row was deleted."""
    marked = schema(FIELDS.format(TIME) + "string __deleted = 6;")

    parsed = parse({1: marked}, bid(marked, VALUE | {"__deleted": "true"}), ignoring=True)

    [rejection] = parsed.rejections
    assert (parsed.rows.num_rows, rejection.reason) == (0, "unknown_field")
    assert "'__deleted' says whether a row was deleted, so it is never ignored; " in rejection.error


@pytest.mark.parametrize(
    "fields",
    [
        "int64 item_id = 1 [features.field_presence = IMPLICIT];",
        "int64 item_id = 1; message In { In in = 2 [features.message_encoding = DELIMITED]; }",
        "int64 item_id = 1; } option features.field_presence = IMPLICIT; message Other {",
    ],
)
def test_features_of_editions_that_change_what_a_record_says_are_refused(fields: str) -> None:
    """A field without a value would be null instead of its default, and one in another encoding, too."""
    text = f'edition = "2023"; package shop; message Bid {{ {fields} }}'

    parsed = parse({1: text}, framed(1, b"\x08\x07"), columns={"item_id": "long?"})

    [rejection] = parsed.rejections
    assert (parsed.rows.num_rows, rejection.reason) == (0, "bad_schema")
    assert re.search(r"it sets features\.\w+ = [A-Z]+, which is not read; leave", rejection.error)


def test_other_schemas_of_an_edition_are_read() -> None:
    """By default a field that a record lacks is null there."""
    text = 'edition = "2023"; package shop; message Bid { int64 item_id = 1; string note = 2; }'

    parsed = parse({1: text}, framed(1, b"\x08\x07"), columns={"item_id": "long?", "note": "string?"})

    assert parsed.rows.to_pylist() == [{"item_id": 7, "note": None}]
