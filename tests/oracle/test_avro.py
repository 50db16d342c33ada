"""The parser of Avro against fastavro, which wrote the records, and against the reader of `verify`."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.pipeline import Stream
from endmark.types import ColumnType
from endmark.wire.avro import cursor as avro_cursor
from endmark.wire.avro.schema import AvroSchemaError, parse
from support.avro_fates import FEW, changed, fates, plain
from support.avro_records import LEAVES, Schemas, World, named_apart, stream_of, worlds
from support.avro_registry import PUNCTUATION, connected, encoded, framed, punctuation
from support.cases import cases

PATTERNS: list[Any] = [
    {"item_id": {"equals": 7}},
    {"item_id": {"one_of": [7]}},
    {"bid_at": {"between": {"to": "2026-01-01T00:00:00Z"}}},
    {},
    7,
    "a",
]
PAIR = {"item_id": ColumnType.LONG}


@cases(75, among=2)
@given(data=st.data(), world=worlds(), few=FEW)
def test_rows_are_those_that_fastavro_wrote(data: st.DataObject, world: World, few: int) -> None:
    """Whatever the schema: the values of columns come back, and other fields are left out."""
    values = data.draw(st.lists(world.values, min_size=1, max_size=8))
    schemas = Schemas({7: json.dumps(world.schema)})

    with patch.object(avro_cursor, "FEW", few):
        found = fates(world.stream, schemas, [framed(7, encoded(world.schema, value)) for value in values])

    assert found == [world.expected(value) for value in values]


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: f"{leaf.type} as {leaf.column}")
@cases(5, among=60)
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


@cases(125, among=1)
@given(history=histories(), few=FEW)
def test_records_meet_the_same_fate(history: tuple[Stream, Schemas, list[bytes | None]], few: int) -> None:
    """However small cuts and insertions change them, and in whatever company."""
    stream, schemas, values = history

    with patch.object(avro_cursor, "FEW", few):
        found = fates(stream, schemas, values)

    assert found == [plain(stream, schemas, value) for value in values]


ALIASES = st.sampled_from([["A"], 7])
SYMBOLS = st.sampled_from([["A"], [], [1], 7])


@st.composite
def random_schemas(draw: st.DrawFn) -> Any:
    """A schema whose parts are put together at random, most of which is none."""
    names = st.sampled_from(["A", "B", "shop.A", "A.B", "", "int"])
    plain: st.SearchStrategy[Any] = st.sampled_from(
        ["null", "int", "string", "bytes", "A", "shop.A", "B", "record", 7, None, [], {}]
    )
    sizes = st.sampled_from([0, 3, -1, True, 2**31, "3"])

    def kind(word: str, **parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.fixed_dictionaries({"type": st.just(word), **parts})

    def more(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        field = st.fixed_dictionaries({"name": names, "type": inner}, optional={"aliases": ALIASES})
        fields = {"name": names, "fields": st.lists(field, max_size=3)}
        return st.one_of(
            st.lists(inner, max_size=3),
            st.fixed_dictionaries({"type": inner}),
            kind("array", items=inner),
            kind("map", values=inner),
            kind("fixed", name=names, size=sizes),
            kind("enum", name=names, symbols=SYMBOLS),
            kind("record", **fields),
            kind("record", **fields, namespace=st.sampled_from(["shop", 7])),
        )

    return draw(st.recursive(plain, more, max_leaves=8))


PATHS = st.sampled_from([("A",), ("B",), ("A", "B"), ("A", "A", "B")])
VALUES = st.sampled_from([b"\0", b"\2\2", b"\0\0\0\2a\0", b"\2a", b"\1"])


@cases(150, among=2)
@given(written=random_schemas(), value=VALUES, path=PATHS, ignoring=st.booleans())
def test_schemas_are_refused_alike(written: Any, value: bytes, path: tuple[str, ...], ignoring: bool) -> None:
    """A schema of random parts never stops the parser, which agrees with `verify` on each record by it."""
    others = {"bid_at": ColumnType.parse("timestamp?"), "A": ColumnType.parse("string?")}
    stream = stream_of({**PAIR, **others}, {"A": path}, ignoring=ignoring)
    schemas = Schemas({1: json.dumps(written)})

    assert fates(stream, schemas, [framed(1, value)]) == [plain(stream, schemas, framed(1, value))]


def doubled(levels: int) -> list[Any]:
    """Return records of which each has the one before it ten times."""
    return [
        {
            "type": "record",
            "name": f"A{at}",
            "fields": [{"name": f"f{n}", "type": f"A{at - 1}" if at else "null"} for n in range(10)],
        }
        for at in range(levels)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[" * 100_000,
        json.dumps(["null"] * 10_001),
        '{"type": "array", "items": ' * 65 + '"int"' + "}" * 65,
        json.dumps({"type": "record", "name": "A", "fields": [{"name": "next", "type": ["null", "A"]}]}),
        json.dumps(doubled(40)),
    ],
    ids=["nothing", "no JSON", "wide", "deep", "recursive", "doubled"],
)
def test_schemas_that_would_take_for_ever_are_refused(text: str) -> None:
    stream, schemas = stream_of(PAIR), Schemas({1: text})

    assert fates(stream, schemas, [framed(1, b"\0")]) == ["dead letter"]
    with pytest.raises(AvroSchemaError):
        parse(text)


LONGS = [
    *(
        b"\0",
        b"\x80\0",
        b"\x80" * 9 + b"\0",
        b"\x80" * 9 + b"\1",
        b"\xff" * 9 + b"\1",
        b"\xfe" + b"\xff" * 8 + b"\1",
    ),
    *(b"\xff" * 9 + b"\2", b"\xff" * 9 + b"\x7f", b"\x80" * 10 + b"\0", b"\xff" * 10 + b"\1", b"\xff" * 12),
    *(b"\xff" * 4 + b"\x0f", b"\xfe" + b"\xff" * 3 + b"\x0f", b"\xff" * 4 + b"\x1f", b"\x80" * 4 + b"\x10"),
    *(b"\1", b"\2", b"\3", b"\4", b"\5", b"", b"\x80", b"\xff"),
]
KINDS: list[Any] = [
    *("null", "boolean", "int", "long", "bytes", "string", ["null", "int"], ["int", "string"]),
    {"type": "enum", "name": "E", "symbols": ["a", "b"]},
    {"type": "fixed", "name": "F", "size": 2},
    {"type": "array", "items": "int"},
    {"type": "array", "items": "null"},
    {"type": "array", "items": {"type": "array", "items": "boolean"}},
    {"type": "map", "values": "null"},
    {
        "type": "record",
        "name": "I",
        "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "boolean"}],
    },
]
COLUMNS = {
    "null": "long?",
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "bytes": "string",
    "string": "string",
}


@pytest.mark.parametrize("few", [1, 32])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_listed_bytes_meet_the_same_fate(kind: Any, few: int) -> None:
    """Numbers, lengths and counts at the ends of their ranges, in front of what may or may not be theirs."""
    fields = [{"name": "c", "type": kind}, {"name": "item_id", "type": "long"}]
    schemas = Schemas({1: json.dumps({"type": "record", "name": "Row", "fields": fields})})
    column = COLUMNS.get(kind) if isinstance(kind, str) else None
    stream = stream_of(PAIR | ({"c": ColumnType.parse(column)} if column else {}), ignoring=True)
    ends = [
        b"",
        b"\0",
        b"\1",
        b"\2",
        b"\2a",
        b"\0\2",
        b"\2\0\2",
        b"\2\2\2",
        b"\2a\0\2",
        b"\4\xff\xfe\0",
        b"\2\2a\0\2",
    ]
    values: list[bytes | None] = [framed(1, first + end) for first in LONGS for end in ends]

    with patch.object(avro_cursor, "FEW", few):
        found = fates(stream, schemas, values)

    assert found == [plain(stream, schemas, value) for value in values]
    assert any(each != "dead letter" for each in found)


DIGITS = [
    b"",
    b"\0",
    b"\x80",
    b"\xff",
    b"\0\x80",
    b"\xff\x7f",
    b"\x0f\x42\x3f",
    b"\x0f\x42\x40",
    b"\xf0\xbd\xc1",
]
DIGITS += [
    b"\xf0\xbd\xc0",
    b"\0" * 20 + b"\5",
    b"\xff" * 20 + b"\x80",
    b"\xff" * 16 + b"\5",
    b"\0" * 15 + b"\x80" * 2,
]


@pytest.mark.parametrize("column", ["decimal(6,2)", "decimal(38,2)", "decimal(4,3)?"])
def test_listed_decimals_meet_the_same_fate(column: str) -> None:
    price = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    fields = [{"name": "c", "type": price}, {"name": "item_id", "type": "long"}]
    schemas = Schemas({1: json.dumps({"type": "record", "name": "Row", "fields": fields})})
    stream = stream_of(PAIR | {"c": ColumnType.parse(column)})
    values: list[bytes | None] = [framed(1, bytes([2 * len(each)]) + each + b"\2") for each in DIGITS]

    found = fates(stream, schemas, values)

    assert found == [plain(stream, schemas, value) for value in values]
    assert 3 < sum(each != "dead letter" for each in found) < len(found)


NUMBERS = [
    float(each) for each in ("0", "-0.0", "nan", "inf", "-inf", "1e39", "3.4028235e38", "-3.4028236e38")
]


@pytest.mark.parametrize("column", ["double", "float"])
@pytest.mark.parametrize("kind", ["float", "double"])
def test_listed_floats_meet_the_same_fate(kind: str, column: str) -> None:
    fields = [{"name": "c", "type": kind}, {"name": "item_id", "type": "long"}]
    schema = {"type": "record", "name": "Row", "fields": fields}
    stream = stream_of(PAIR | {"c": ColumnType.parse(column)})
    numbers = [each for each in NUMBERS if kind == "double" or not 3.5e38 < abs(each) < float("inf")]
    values: list[bytes | None] = [framed(1, encoded(schema, {"c": each, "item_id": 1})) for each in numbers]
    schemas = Schemas({1: json.dumps(schema)})

    found = fates(stream, schemas, values)

    assert found == [plain(stream, schemas, value) for value in values]
    assert "dead letter" in found


TIMES = [
    "timestamp-millis",
    "timestamp-micros",
    "timestamp-nanos",
    "local-timestamp-micros",
    "time-micros",
    "date",
    None,
]
AGES = [
    0,
    -1,
    253_402_300_799,
    253_402_300_800,
    -62_135_596_801,
    253_402_300_799_999,
    253_402_300_800_000,
    2**62,
]


@pytest.mark.parametrize(
    "column", ["timestamp", "timestamp(s)", "timestamp(ms)", "timestamp(us)", "long", "date", "date(days)"]
)
@pytest.mark.parametrize("word", TIMES)
@pytest.mark.parametrize("kind", ["int", "long"])
def test_listed_times_meet_the_same_fate(kind: str, word: str | None, column: str) -> None:
    written = {"type": kind, "logicalType": word} if word else kind
    fields = [{"name": "c", "type": written}, {"name": "item_id", "type": "long"}]
    schemas = Schemas({1: json.dumps({"type": "record", "name": "Row", "fields": fields})})
    plainly = {
        "type": "record",
        "name": "Row",
        "fields": [{"name": name, "type": "long"} for name in ("c", "item_id")],
    }
    stream = stream_of(PAIR | {"c": ColumnType.parse(column)})
    values: list[bytes | None] = [framed(1, encoded(plainly, {"c": age, "item_id": 1})) for age in AGES]

    assert fates(stream, schemas, values) == [plain(stream, schemas, value) for value in values]


ZONED = [
    *("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.123456+01:00", "0001-01-01T00:00:00+01:00", ""),
    *("2026-02-30T12:00:00Z", "2026-01-31", "2026-01-31T12:00:00.1234567Z", "noon", "\ud7ff"),
]


@pytest.mark.parametrize("column", ["timestamp", "timestamp?", "timestamp(ms)", "string", "date"])
def test_listed_zoned_times_meet_the_same_fate(column: str) -> None:
    zoned = connected("string", "io.debezium.time.ZonedTimestamp")
    fields = [{"name": "c", "type": ["null", zoned]}, {"name": "item_id", "type": "long"}]
    schema = {"type": "record", "name": "Row", "fields": fields}
    stream = stream_of(PAIR | {"c": ColumnType.parse(column)})
    schemas = Schemas({1: json.dumps(schema)})
    rows: list[Any] = [None, *ZONED, b"\xff"]
    values: list[bytes | None] = [
        framed(1, encoded(schema, {"c": each, "item_id": 1}))
        if not isinstance(each, bytes)
        else framed(1, b"\2\2\xff\2")
        for each in rows
    ]

    assert fates(stream, schemas, values) == [plain(stream, schemas, value) for value in values]


@pytest.mark.parametrize("names", [("c", "d"), ("d", "c"), ("e", "d"), ("d", "e")], ids=str)
def test_aliases_meet_the_same_fate(names: tuple[str, str]) -> None:
    """A field's own name counts before an alias, and the first field before the next."""
    fields = [{"name": name, "type": "string", "aliases": ["x", "c", "f"]} for name in names]
    fields.append({"name": "item_id", "type": "long"})
    schemas = Schemas({1: json.dumps({"type": "record", "name": "Row", "fields": fields})})
    value = framed(1, b"\2a\2b\2")
    for ignoring in (True, False):
        for column in ("c", "f"):
            stream = stream_of(PAIR | {column: ColumnType.parse("string?")}, ignoring=ignoring)
            assert fates(stream, schemas, [value]) == [plain(stream, schemas, value)]


def _inner(name: str, *fields: tuple[str, Any], **more: Any) -> dict[str, Any]:
    listed = [{"name": each, "type": kind, **more} for each, kind in fields]
    return {"type": "record", "name": name, "fields": listed}


WITHIN: list[Any] = [
    *("null", "int", "string", _inner("R"), _inner("R", ("b", "string")), _inner("R", ("b", "int"))),
    *(_inner("R", ("b", ["null", "string"])), _inner("R", ("b", "string"), ("x", "boolean"))),
    *(_inner("R", ("x", "string")), _inner("R", ("x", "string"), aliases=["b"])),
    *(["null", _inner("R", ("b", "string"))], [_inner("R", ("b", "string")), "null"]),
    *(["null", "int", _inner("R", ("b", "string"))], ["null", _inner("R", ("x", "string"))]),
    *([_inner("R", ("b", "string")), _inner("S", ("x", "string"), ("b", "string"))],),
    *([_inner("R", ("b", "string")), _inner("S", ("x", "int"))], _inner("R", ("b", _inner("S")))),
]


@pytest.mark.parametrize("ignoring", [False, True])
@pytest.mark.parametrize("column", ["string", "string?"])
@pytest.mark.parametrize("kind", WITHIN, ids=str)
def test_listed_records_within_records_meet_the_same_fate(kind: Any, column: str, ignoring: bool) -> None:
    """A column is in a record that is there, or null, or something else, with and without other fields."""
    fields = [{"name": "a", "type": kind}, {"name": "item_id", "type": "long"}]
    schemas = Schemas({1: json.dumps({"type": "record", "name": "Row", "fields": fields})})
    stream = stream_of(PAIR | {"c": ColumnType.parse(column)}, {"c": ("a", "b")}, ignoring=ignoring)
    ends = [
        b"",
        b"\2",
        b"\0\2",
        b"\2\2",
        b"\2u\2",
        b"\0\2u\2",
        b"\2\2u\2",
        b"\4\2u\2",
        b"\2u\1\2",
        b"\2\2u\2u\2",
    ]
    values: list[bytes | None] = [framed(1, end) for end in ends]

    assert fates(stream, schemas, values) == [plain(stream, schemas, value) for value in values]


def test_listed_schemas_meet_the_same_fate() -> None:
    """Records of several schemas, branches and branches of fields stand side by side."""
    size = {"type": "enum", "name": "Size", "symbols": ["S", "M"]}
    fields = [{"name": "item_id", "type": "long"}, {"name": "c", "type": ["string", "null", size]}]
    row = {"type": "record", "name": "Row", "fields": fields}
    numbers = {1: row, -1: [PUNCTUATION, row], 2: ["int", row], 7: PUNCTUATION}
    schemas = Schemas({number: json.dumps(each) for number, each in numbers.items()})
    stream = stream_of(PAIR | {"c": ColumnType.parse("string?")})
    rows = [b"\2\4\2", b"\4\0\2a", b"\6\2", b"\x08\4\0", b"\x0a\0\2b"]
    values: list[bytes | None] = []
    for each in rows:
        promise = punctuation({"item_id": {"equals": 5}})
        values += [framed(2, b"\2" + each), framed(7, promise), framed(1, each), framed(-1, b"\2" + each)]
        values += [framed(-1, b"\0" + promise), framed(2, b"\0\2"), framed(-1, b"\4" + each), framed(3, each)]

    found = fates(stream, schemas, values)

    assert found == [plain(stream, schemas, value) for value in values]
    assert [each["c"] for each in found if isinstance(each, dict)][::3] == ["M", "a", None, "S", "b"]
    assert found.count((5,)) == 10
