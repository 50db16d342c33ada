"""Small worlds for `verify`: a pipeline, and records as bytes."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

from hypothesis import strategies as st

from endmark.pipeline import Pipeline
from endmark.types import JoinType
from support.avro_registry import NOWHERE
from support.sizes import speakers
from support.verify_keys import LONG, KeyKind
from support.verify_measures import usual_measures
from support.verify_others import COLUMNS, lookup_steps

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
PARTITIONS = 2  # of each topic, where records are written by hand
TWO_EACH: Mapping[str, int] = MappingProxyType(dict.fromkeys(("all.items", "all.bids"), PARTITIONS))
STAMPED = int((EPOCH + timedelta(days=365)).timestamp()) * 1000  # Kafka's time, in ms, where it has no part
Row = tuple[Any, ...]
Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Record:
    """One Kafka record; its offset is its place among the records of its partition.

    `timestamp` is Kafka's, in milliseconds, and after most event times.
    """

    topic: str
    partition: int
    value: bytes | None
    timestamp: int = STAMPED
    key: bytes | None = None
    headers: Headers = ()


class Placed(NamedTuple):
    """A record with its offset."""

    topic: str
    partition: int
    offset: int
    value: bytes | None
    timestamp: int
    key: bytes | None = None
    headers: Headers = ()


def make_pipeline(
    url: str = "sqlite://",
    *,
    windows: tuple[int | None, int | None] = (5, 5),
    lateness: tuple[int, int] = (0, 0),
    idle: tuple[int | None, int | None] = (None, None),
    ahead: tuple[str | None, str | None] = ("1h", "1h"),
    lookup: str = "bids",
    looking: Mapping[str, Any] = MappingProxyType({}),
    punctuated: tuple[bool, bool] = (True, True),
    declared: tuple[Mapping[str, Any], Mapping[str, Any]] = (MappingProxyType({}), MappingProxyType({})),
    keys: KeyKind = LONG,
    kind: JoinType = JoinType.INNER,
    where: str | None = None,
    join: Mapping[str, Any] = MappingProxyType({}),
    aggregated: bool = True,
    wider: tuple[str, ...] = (),
    timed: tuple[bool, bool] = (False, False),
    measures: Mapping[str, Any] | None = None,
    running: bool = False,
    others: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    nullable: tuple[Collection[str], Collection[str]] = ((), ()),
) -> Pipeline:
    """Auctions with few columns; windows, lateness and idle in seconds, for items and bids; `join` has
    further fields of the join, `declared` those of the streams, `wider` columns beside the key that both are
    punctuated on, `others` further lookups, by their relations in `OTHERS`, `nullable` the columns of each
    stream that may be null. A stream that is `timed` is punctuated on its event time, too."""
    left, right = (None if seconds is None else timedelta(seconds=seconds) for seconds in windows)
    sellers = {"seller_id": "long", "name": "string", "rating": "double"}
    sellers |= {"since": "timestamp"} if looking.get("as_of") else {}
    on = list(keys.types)
    measures = measures or usual_measures(lookup, kind)
    steps, ends = lookup_steps({"stream": lookup, **looking}, others)
    steps["matched"] = {
        "join": list(ends.values()),
        "on": on,
        "type": kind,
        "where": where,
        "window": {ends["items"]: left, ends["bids"]: right},
        **join,
    }
    tables: dict[str, Any] = {"results": {"from": "matched"}}
    if aggregated:
        steps["by_key"] = {"from": "matched", "aggregate": {"by": on[::-1], "measures": measures}}
        tables["groups"] = {"from": "by_key"}
        tables |= {"running": {"from": "by_key", "mode": "changes"}} if running else {}
    return Pipeline.model_validate(
        {
            "name": "small",
            "registry": {"url": NOWHERE},
            "streams": _streams(
                keys,
                lateness,
                idle,
                ahead,
                punctuated,
                declared,
                wider=wider,
                timed=timed,
                nullable=nullable,
            ),
            "relations": {
                name: {"url": url, "table": name, "key": next(iter(columns)), "columns": columns}
                for name, columns in {"sellers": sellers, **{name: COLUMNS[name] for name in others}}.items()
            },
            "steps": steps,
            "tables": tables,
        }
    )


def _streams(
    keys: KeyKind,
    lateness: tuple[int, int],
    idle: tuple[int | None, int | None],
    ahead: tuple[str | None, str | None],
    punctuated: tuple[bool, bool],
    declared: tuple[Mapping[str, Any], Mapping[str, Any]],
    *,
    wider: tuple[str, ...],
    timed: tuple[bool, bool],
    nullable: tuple[Collection[str], Collection[str]],
) -> dict[str, Any]:
    own = {
        "items": {"listed_at": "timestamp"},
        "bids": {
            "price": "double",
            "urgent": "boolean",
            "note": "string",
            "due": "date",
            "tip": "decimal(6,2)",
            "bid_at": "timestamp",
        },
    }
    return {
        stream: {
            "topic": f"all.{stream}",
            "columns": {
                name: f"{kind}?" if name in gaps else kind
                for name, kind in (keys.types | {"seller_id": "long"} | columns).items()
            },
            "event_time": {
                "column": list(columns)[-1],
                "lateness": f"{allowed}s",
                "idle": silent and f"{silent}s",
                "ahead": bound,
            },
            "punctuated_on": [
                *(keys.types if promises else ()),
                *wider,
                *(list(columns)[-1:] if times else ()),
            ],
            **fields,
        }
        for (stream, columns), allowed, silent, bound, promises, fields, times, gaps in zip(
            own.items(), lateness, idle, ahead, punctuated, declared, timed, nullable, strict=True
        )
    }


def instant(seconds: float) -> str:
    return (EPOCH + timedelta(seconds=seconds)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def item(
    key: int, seconds: float, seller: int = 1, partition: int | None = None, keys: KeyKind = LONG
) -> Record:
    value = keys.spell(key) | {"seller_id": seller, "listed_at": instant(seconds)}
    return Record("all.items", _home(key, partition), json.dumps(value).encode())


def bid(
    key: int,
    seconds: float,
    seller: int = 1,
    price: float = 1.0,
    partition: int | None = None,
    keys: KeyKind = LONG,
    tip: str | None = None,
) -> Record:
    value = keys.spell(key) | {
        "seller_id": seller,
        "price": price,
        "urgent": seller % 2 == 0,
        "note": f"bid \u00fc {seconds}",
        "due": f"2026-01-{10 + seller % 9}",
        "tip": tip or f"{seller % 9}.5",
        "bid_at": instant(seconds),
    }
    return Record("all.bids", _home(key, partition), json.dumps(value).encode())


def close(stream: str, key: int, partition: int | None = None, keys: KeyKind = LONG) -> Record:
    pattern = {column: {"equals": value} for column, value in keys.spell(key).items()}
    return Record(f"all.{stream}", _home(key, partition), json.dumps({"$punctuation": pattern}).encode())


def promise(stream: str, patterns: Mapping[str, Any], partition: int) -> Record:
    return Record(f"all.{stream}", partition, json.dumps({"$punctuation": patterns}).encode())


def heartbeat(
    stream: str, seconds: float, partition: int, *, before: bool = False, timestamp: int = STAMPED
) -> Record:
    """No more rows up to this time, or before it."""
    columns = {"items": "listed_at", "bids": "bid_at"}
    ends: dict[str, Any] = {"to": instant(seconds)} | ({"to_open": True} if before else {})
    record = promise(stream, {columns[stream]: {"between": ends}}, partition)
    return replace(record, timestamp=timestamp)


@st.composite
def promises(draw: st.DrawFn, stream: str, keys: KeyKind, count: int) -> list[Record]:
    """Patterns on the key, in some of `count` partitions, mostly in all, as most need to close anything.
    Listed values are of keys of their own partition, since they may name some."""
    columns = draw(st.sets(st.sampled_from(list(keys.types)), min_size=1))
    ends = draw(st.lists(st.sampled_from(["from", "to"]), unique=True))
    numbers = {end: draw(st.integers(0, 4)) for end in ends}
    opened = {f"{end}_open": draw(st.booleans()) for end in ends}
    records = []
    for home in draw(speakers(count)):
        living = [number for number in range(5) if keys.home(number, count) == home]
        patterns: dict[str, Any] = {}
        for column in sorted(columns):
            spelled = {end: keys.spell(number)[column] for end, number in numbers.items()}
            patterns[column] = {"between": spelled | opened}
            if living and draw(st.integers(0, 2)) == 0:
                listed = draw(st.lists(st.sampled_from(living), max_size=2))
                patterns[column] = {"one_of": [keys.spell(number)[column] for number in listed]}
        records.append(promise(stream, patterns, home))
    return records


@st.composite
def wider_promises(draw: st.DrawFn, stream: str, keys: KeyKind, count: int) -> list[Record]:
    """Patterns on the seller, with or without one on the key, in some of `count` partitions."""
    number = st.integers(1, 4)
    seller = draw(
        st.one_of(
            st.builds(lambda one: {"equals": one}, number),
            st.builds(lambda one, other: {"one_of": [one, other]}, number, number),
            st.builds(lambda end: {"between": {"to": end, "to_open": True}}, number),
            st.just({"anything": True}),  # alone, it ends the stream; beside a key, it says nothing
        )
    )
    patterns: dict[str, Any] = {"seller_id": seller}
    homes = draw(speakers(count))
    if draw(st.booleans()):
        column = draw(st.sampled_from(list(keys.types)))
        key = draw(st.integers(0, 4))
        patterns[column] = {"equals": keys.spell(key)[column]}
        if seller == {"anything": True} and len(keys.types) == 1:
            homes = [keys.home(key, count)]  # it names the key, whose rows are in one partition
    return [promise(stream, patterns, home) for home in homes]


def raw(stream: str, value: bytes | None, partition: int = 0) -> Record:
    return Record(f"all.{stream}", partition, value)


def _home(key: int, partition: int | None) -> int:
    return key % PARTITIONS if partition is None else partition


def locate(records: Iterable[Record]) -> list[Placed]:
    """Records with their offsets."""
    ends: dict[tuple[str, int], int] = {}
    located = []
    for record in records:
        offset = ends.get((record.topic, record.partition), 0)
        ends[record.topic, record.partition] = offset + 1
        place = record.topic, record.partition, offset
        located.append(Placed(*place, record.value, record.timestamp, record.key, record.headers))
    return located
