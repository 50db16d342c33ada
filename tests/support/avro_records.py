"""Random schemas of Avro with columns that take them, and records as fastavro writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar

from hypothesis import strategies as st

from endmark.pipeline import Stream
from endmark.pipeline.record_parts import Origin, RecordPart
from endmark.schemas.registry import Schema, UnknownSchemaError
from endmark.types import ColumnType
from support.avro_registry import connected, logical
from support.payloads import PIPELINE

_TEXTS = st.text(max_size=5)
_LONGS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, 1, -1, 63, 64, -64, -65, 2**62])
_INTS = st.integers(-(2**31), 2**31 - 1) | st.integers(-70, 70)
_DAYS = st.dates()
_MICROS = st.datetimes(timezones=st.just(UTC))
_MILLIS = _MICROS.map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Leaf:
    """A type of a field, a column that takes it, and values of both.

    Args:
        type: the type in the schema.
        column: the type of the column.
        values: values as fastavro takes them.
        read: returns the value that the column has.
    """

    type: Any
    column: str
    values: st.SearchStrategy[Any]
    read: Any = lambda value: value


def _decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    return st.integers(-(10**digits) + 1, 10**digits - 1).map(lambda number: Decimal(f"{number}E-{scale}"))


def _fixed(name: str, size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def _whole(unit: timedelta) -> Any:
    return lambda number: _EPOCH + number * unit


def _day(number: int) -> date:
    return date(1970, 1, 1) + timedelta(number)


def _zoned(at: datetime) -> str:
    """Return a time as Debezium writes one of a column with a zone."""
    return at.isoformat().replace("+00:00", "Z")


_unzoned = datetime.fromisoformat
_AGES = st.integers(-(10**13), 10**13)

LEAVES = [
    Leaf("long", "long", _LONGS),
    Leaf("int", "long", _INTS),
    Leaf("int", "int", _INTS),
    Leaf(
        logical("long", "timestamp-millis"),
        "long",
        _MILLIS,
        lambda at: (at - _EPOCH) // timedelta(0, 0, 1000),
    ),
    Leaf("long", "double", st.integers(-(2**53), 2**53), float),
    Leaf("int", "double", _INTS, float),
    Leaf("float", "double", st.floats(width=32, allow_nan=False, allow_infinity=False)),
    Leaf("float", "float", st.floats(width=32, allow_nan=False, allow_infinity=False)),
    Leaf("double", "double", st.floats(allow_nan=False, allow_infinity=False)),
    Leaf("string", "string", _TEXTS),
    Leaf("bytes", "string", _TEXTS.map(str.encode), bytes.decode),
    Leaf(logical("string", "uuid"), "string", st.uuids(), str),
    Leaf({"type": "enum", "name": "Size", "symbols": ["S", "M", "L"]}, "string", st.sampled_from("SML")),
    Leaf("boolean", "boolean", st.booleans()),
    Leaf(logical("int", "date"), "date", _DAYS),
    Leaf(logical("int", "date"), "date(days)", _DAYS),
    Leaf("int", "date(days)", st.integers(-719_162, 2_932_896), _day),
    Leaf(logical("long", "timestamp-millis"), "timestamp", _MILLIS),
    Leaf(logical("long", "timestamp-millis"), "timestamp(ms)", _MILLIS),
    Leaf(logical("long", "timestamp-micros"), "timestamp", _MICROS),
    Leaf("long", "timestamp(us)", st.integers(-(10**15), 10**15), _whole(timedelta(0, 0, 1))),
    Leaf("long", "timestamp(s)", st.integers(-(10**9), 10**9), _whole(timedelta(0, 1))),
    Leaf(logical("bytes", "decimal", precision=18, scale=2), "decimal(18,2)", _decimals(18, 2)),
    Leaf(logical("bytes", "decimal", precision=38), "decimal(38,0)", _decimals(37, 0)),
    Leaf(logical("bytes", "decimal", precision=9, scale=1), "decimal(18,4)", _decimals(9, 1)),
    Leaf(connected("int", "io.debezium.time.Date"), "date", st.integers(-719_162, 2_932_896), _day),
    Leaf(connected("long", "io.debezium.time.Timestamp"), "timestamp", _AGES, _whole(timedelta(0, 0, 1000))),
    Leaf(
        connected("long", "io.debezium.time.MicroTimestamp"), "timestamp", _AGES, _whole(timedelta(0, 0, 1))
    ),
    Leaf(connected("long", "io.debezium.time.NanoTime"), "long", _LONGS),
    Leaf(connected("string", "io.debezium.time.ZonedTimestamp"), "timestamp", _MICROS.map(_zoned), _unzoned),
    Leaf(connected("string", "io.debezium.time.ZonedTimestamp"), "string", _MICROS.map(_zoned)),
    Leaf(_fixed("Nine", 9, logicalType="decimal", precision=20, scale=3), "decimal(20,3)", _decimals(20, 3)),
]
_OTHERS = st.sampled_from(
    [
        ("null", st.none()),
        ("bytes", st.binary(max_size=3)),
        ("double", st.floats(allow_nan=False)),
        (_fixed("Some", 3), st.binary(min_size=3, max_size=3)),
        (_fixed("None", 0), st.just(b"")),
        (["null", "int", "string"], st.none() | _INTS | _TEXTS),
        *((leaf.type, leaf.values) for leaf in LEAVES),
    ]
)


def _list(item: tuple[Any, st.SearchStrategy[Any]]) -> tuple[Any, st.SearchStrategy[Any]]:
    kind, values = item
    return {"type": "array", "items": kind}, st.lists(values, max_size=3)


def _map(item: tuple[Any, st.SearchStrategy[Any]]) -> tuple[Any, st.SearchStrategy[Any]]:
    kind, values = item
    return {"type": "map", "values": kind}, st.dictionaries(_TEXTS, values, max_size=3)


def _record(items: list[tuple[Any, st.SearchStrategy[Any]]]) -> tuple[Any, st.SearchStrategy[Any]]:
    fields = [{"name": f"f{at}", "type": kind} for at, (kind, _) in enumerate(items)]
    values = st.fixed_dictionaries({f"f{at}": each for at, (_, each) in enumerate(items)})
    return {"type": "record", "name": "Inner", "fields": fields}, values


NESTED = st.recursive(
    _OTHERS,
    lambda inner: st.one_of(inner.map(_list), inner.map(_map), st.lists(inner, max_size=3).map(_record)),
    max_leaves=4,
)


def named_apart(node: Any, count: list[int]) -> Any:
    """Give each named type of a schema a name of its own, since a name is declared once."""
    if isinstance(node, list):
        return [named_apart(each, count) for each in node]
    if not isinstance(node, dict):
        return node
    found = {key: named_apart(each, count) for key, each in node.items()}
    if node.get("type") in ("record", "enum", "fixed"):
        count[0] += 1
        found["name"] = f"{node['name']}{count[0]}"
    return found


@dataclass
class World:
    """A stream of Avro, and the schema of a writer.

    Args:
        schema: the schema of rows.
        columns: the columns of the stream.
        values: rows as fastavro takes them.
        read: functions that return the values of columns, by name.
        paths: the names of nested fields that lead to a column, where it is no field of its own name.
        ignoring: whether the schema may have other fields.
    """

    schema: dict[str, Any]
    columns: dict[str, ColumnType] = field(repr=False)
    values: st.SearchStrategy[dict[str, Any]] = field(repr=False)
    read: dict[str, Any] = field(repr=False)
    paths: dict[str, tuple[str, ...]]
    ignoring: bool

    @property
    def stream(self) -> Stream:
        """The stream, without what it does not need to be read."""
        return stream_of(self.columns, self.paths, ignoring=self.ignoring)

    def expected(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return the row of a value."""
        row = {}
        for name in self.columns:
            found: Any = value
            for each in self.paths.get(name, (name,)):
                found = None if found is None else found.get(each)
            row[name] = None if found is None else self.read[name](found)
        return row


def stream_of(
    columns: Mapping[str, ColumnType],
    paths: Mapping[str, tuple[str, ...]] | None = None,
    *,
    ignoring: bool = False,
) -> Stream:
    """Return a stream of Avro, with the nested fields that lead to some of its columns."""
    bids = PIPELINE.streams["bids"]
    changes = {
        "format": "avro",
        "columns": dict(columns),
        "punctuated_on": ("item_id",),
        "extra": "ignore" if ignoring else "dead_letter",
        "taken_from": {name: RecordPart(Origin.VALUE, path) for name, path in (paths or {}).items()},
    }
    return bids.model_copy(update=changes)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A schema with a key and a few other fields. Some of these are no columns, and some may be null.

    Columns may be in a record `r`, and in a record `s` within that. If such a record may be null, so may its
    columns.
    """
    time = logical("long", "timestamp-micros")
    fields: list[dict[str, Any]] = [{"name": "item_id", "type": "long"}, {"name": "bid_at", "type": time}]
    columns = {"item_id": ColumnType.LONG, "bid_at": ColumnType.TIMESTAMP}
    values: dict[str, st.SearchStrategy[Any]] = {"item_id": _LONGS, "bid_at": _MICROS}
    read: dict[str, Any] = dict.fromkeys(columns, lambda value: value)
    paths: dict[str, tuple[str, ...]] = {}
    inner: dict[tuple[str, ...], _Fields] = {("r",): _Fields(), ("r", "s"): _Fields()}
    optional = {place: draw(st.booleans()) for place in inner}
    for at, leaf in enumerate(draw(st.lists(st.sampled_from(LEAVES), max_size=5))):
        nullable, name = draw(st.booleans()), f"c{at}"
        place = draw(st.sampled_from([(), ("r",), ("r", "s")]))
        kind = _or_null(draw, leaf.type) if nullable else leaf.type
        drawn = st.none() | leaf.values if nullable else leaf.values
        may_lack = nullable or any(optional[place[: at + 1]] for at in range(len(place)))
        columns[name], read[name] = ColumnType.parse(leaf.column + ("?" if may_lack else "")), leaf.read
        if place:
            paths[name] = (
                (*place, "of") if draw(st.booleans()) and not inner[place].fields else (*place, name)
            )
            inner[place].add(paths[name][-1], kind, drawn)
        else:
            fields.append({"name": name, "type": kind})
            values[name] = drawn
    for place, within in reversed(inner.items()):
        if within.fields:
            kind, drawn = within.record(place[-1].upper())
            if optional[place]:
                kind, drawn = _or_null(draw, kind), st.none() | drawn
            if place[:-1]:
                inner[place[:-1]].add(place[-1], kind, drawn)
            else:
                fields.append({"name": place[0], "type": kind})
                values[place[0]] = drawn
    others = draw(st.lists(NESTED, max_size=2))
    for at, (kind, each) in enumerate(others):
        fields.append({"name": f"x{at}", "type": kind})
        values[f"x{at}"] = each
    if draw(st.booleans()):
        columns["gone"], read["gone"] = ColumnType.parse("string?"), str
    fields = draw(st.permutations(fields))
    schema = named_apart({"type": "record", "name": "Row", "namespace": "shop", "fields": fields}, [0])
    return World(schema, columns, st.fixed_dictionaries(values), read, paths, ignoring=bool(others))


@dataclass
class _Fields:
    """The fields of a record within another one."""

    fields: list[dict[str, Any]] = field(default_factory=list)
    values: dict[str, st.SearchStrategy[Any]] = field(default_factory=dict)

    def add(self, name: str, kind: Any, values: st.SearchStrategy[Any]) -> None:
        self.fields.append({"name": name, "type": kind})
        self.values[name] = values

    def record(self, name: str) -> tuple[Any, st.SearchStrategy[Any]]:
        """Return the type of the record, and values of it."""
        return {"type": "record", "name": name, "fields": self.fields}, st.fixed_dictionaries(self.values)


def _or_null(draw: st.DrawFn, kind: Any) -> list[Any]:
    """Return a union of a type and null, in either order."""
    return [kind, "null"][:: draw(st.sampled_from([1, -1]))]


@dataclass(frozen=True)
class Schemas:
    """The schemas of a registry that has these alone, each with the same imports."""

    texts: dict[int, str] = field(hash=False, default_factory=dict)
    imports: tuple[tuple[str, str], ...] = ()
    framed: ClassVar[bool] = True

    def schema(self, number: int) -> Schema:
        if number not in self.texts:
            raise UnknownSchemaError("the registry has no such schema")
        return Schema(self.texts[number], self.imports)

    def name(self, number: int) -> str:
        return f"schema {number}"
