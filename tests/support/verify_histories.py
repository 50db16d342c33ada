"""Random pipelines and random records for them, which collide: five keys, four sellers, few partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from hypothesis import strategies as st

from endmark.operators.lookup.strategies import STRATEGIES
from endmark.operators.stream_join.presets import PRESETS, Preset, Propagation
from endmark.pipeline import Pipeline, Stream
from endmark.types import JoinType
from support.numbers import with_numbers
from support.record_parts import with_parts
from support.sizes import speakers
from support.verify_alone import alone
from support.verify_declared import LAST
from support.verify_gaps import nullable, with_gaps
from support.verify_keys import KeyKind
from support.verify_measures import any_measures
from support.verify_others import other_lookups
from support.verify_world import (
    EPOCH,
    Record,
    bid,
    close,
    heartbeat,
    item,
    make_pipeline,
    promises,
    raw,
    wider_promises,
)

FORMATS: list[dict[str, Any]] = [
    {"format": "xml"},
    {"format": "debezium"},
    {"format": "debezium", "updates": "rows"},
]
OF_AVRO: list[dict[str, Any]] = [
    {"format": "avro"},
    {"format": "debezium_avro"},
    {"format": "debezium_avro", "updates": "rows"},
]
MATCHINGS = ["many_to_one", "many_to_many", "as_of"]
CONDITIONS = [
    None,
    "bids_price >= 0.1 AND items_seller_id <> bids_seller_id",
    "SELLERS_rating > 0 OR bids_due = DATE '2026-01-12' -- a comment",
    "bids_price > -9 OR items_seller_id + 9223372036854775806 > 0",  # which fails on sellers above 1
]
AHEAD = ["1h", "1h", "1s", None]
PRICES = [0.1, 1e17, -3.5]  # whose sum hangs on their order, unless it is exact
KINDS = [
    *["item"] * 4,
    *["bid"] * 6,
    *["items", "bids"] * 2,
    *["items!", "bids!", "items*", "bids*", "items~", "bids~", "bad"],
]
STREAMS = ("items", "bids")
STREAM_OF = {"item": "items", "bid": "bids", "bad": "bids"}
NO_STREAMS: Mapping[str, Stream] = MappingProxyType({})


@st.composite
def declarations(
    draw: st.DrawFn, keys: KeyKind, *, formats: bool = False, gaps: bool = False
) -> dict[str, Any]:
    """Draw a stream's declarations of its own rows."""
    declared: dict[str, Any] = {
        "punctuation_scope": draw(st.sampled_from(["partition", "partition", "topic"]))
    }
    direction = draw(st.sampled_from([None, None, "ascending", "descending"]))
    if direction is not None and len(keys.types) == 1:
        declared["ordered"] = dict.fromkeys(keys.types, direction)
    runs = draw(st.sampled_from([None, None, None, "unique", "clustered"]))
    if runs is not None:
        declared[runs] = list(keys.types)
    if draw(st.integers(0, 3)) == 0:
        on = draw(st.sampled_from([[*keys.types], [*keys.types], ["seller_id"], [*keys.types, "seller_id"]]))
        declared["closes"] = {"on": on, "when": draw(st.sampled_from(list(LAST)))}
    if gaps:
        declared["extra"] = draw(st.sampled_from(["dead_letter", "ignore"]))
    return declared | (draw(st.sampled_from([*FORMATS, *OF_AVRO])) if formats else {})


@st.composite
def nullable_columns(
    draw: st.DrawFn,
    keys: KeyKind,
    declared: Sequence[Mapping[str, Any]],
    punctuated: Sequence[bool],
    wider: Sequence[str],
) -> tuple[frozenset[str], frozenset[str]]:
    """The columns of each stream that may be null."""
    left, right = (
        draw(nullable(stream, list(keys.types), own, [*(keys.types if promises else ()), *wider]))
        for stream, own, promises in zip(STREAMS, declared, punctuated, strict=True)
    )
    return left, right


def misses(*, parking: bool) -> st.SearchStrategy[Any]:
    """Draw a lookup's `miss`, the fate of rows without a match."""
    fates = st.sampled_from(["drop", "nulls", "dead_letter"])
    parked = st.fixed_dictionaries({"delay": st.just("1s"), "attempts": st.integers(2, 3), "then": fates})
    return st.one_of(fates, parked.map(lambda park: {"park": park})) if parking else fates


def matched(how: str, lookup: str) -> dict[str, Any]:
    """Fields of the lookup that say which rows of R a row of this stream meets."""
    times = {"items": "listed_at", "bids": "bid_at"}
    return (
        {"as_of": {"stream": times[lookup], "relation": "since"}} if how == "as_of" else {"cardinality": how}
    )


@st.composite
def pipelines(
    draw: st.DrawFn,
    kind: JoinType | None,
    keys: KeyKind,
    url: str = "sqlite://",
    chosen: Preset | None = None,
    *,
    idle: bool = False,
    parking: bool = False,
    several: bool = False,
    formats: bool = False,
    gaps: bool = False,
) -> Pipeline:
    """Of the preset that is chosen, or of any; `url` may have a place for one of `MATCHINGS`, and rows may be
    parked where `parking` says so, or looked up in `OTHERS`, too, where `several` does. With `formats`,
    formats, spellings as numbers, and parts of records are any. With `gaps`, columns may be null, and members
    that are not declared may be ignored. Without a `kind` of join there is one stream alone.

    Where partitions can be idle, progress soon leaves windows, since only then it matters when it did.
    """
    preset = draw(st.sampled_from(Preset)) if chosen is None else chosen
    if kind is None:
        preset = Preset.AUTO
    shown = kind or JoinType.INNER
    able = PRESETS[preset]
    windows = st.integers(0, 2) if idle else st.one_of(st.integers(0, 5), st.none())
    bound = windows if able.window else st.none()
    lateness = st.integers(0, 1 if idle else 3)
    silence = st.integers(1, 2) if idle else st.none()
    lookup = draw(st.sampled_from(["items", "bids"]))
    matching = draw(st.sampled_from(MATCHINGS))
    punctuated = draw(st.sampled_from([(True, True), (True, False), (False, True)]))
    wider: tuple[str, ...] = draw(st.sampled_from([(), ("seller_id",)]))
    says = declarations(keys, formats=formats, gaps=gaps)
    declared = draw(says), draw(says)
    pipeline = make_pipeline(
        url.format(matching),
        windows=(draw(bound), draw(bound)),
        lateness=(draw(lateness), draw(lateness)),
        idle=(draw(silence), draw(silence)),
        ahead=(draw(st.sampled_from(AHEAD)), draw(st.sampled_from(AHEAD))),
        lookup=lookup,
        looking={
            **matched(matching, lookup),
            "strategy": draw(st.sampled_from(list(STRATEGIES))),
            "miss": draw(misses(parking=parking)),
            "time_per_batch": draw(st.sampled_from([None, "0ms"])),
            "memory": draw(st.sampled_from([1, 500, 64_000_000])),
            "cache": draw(st.sampled_from([None, {"memory": 300}])),
        },
        punctuated=punctuated,
        declared=declared,
        nullable=draw(nullable_columns(keys, declared, punctuated, wider)) if gaps else ((), ()),
        keys=keys,
        kind=shown,
        where=draw(st.sampled_from(CONDITIONS)),
        join={
            "preset": preset,
            "purge_every": draw(st.integers(1, 4)) if able.batch else 1,
            "memory": draw(st.sampled_from([None, 1, 2000, 8000])) if able.spill else None,
        },
        aggregated=able.propagate is not Propagation.NEVER,
        wider=wider,
        timed=(draw(st.integers(0, 3)) == 0, draw(st.integers(0, 3)) == 0),
        measures=draw(st.one_of(st.none(), any_measures(lookup, shown))),
        running=draw(st.booleans()),
        others=draw(other_lookups(misses(parking=parking), lookup)) if several else {},
    )
    if formats:
        pipeline = draw(with_parts(draw(with_numbers(pipeline))))
    if kind is not None:
        return pipeline
    return alone(pipeline, draw(st.sampled_from([lookup, lookup, "items", "bids"])))


@st.composite
def histories(
    draw: st.DrawFn,
    keys: KeyKind,
    partitions: Mapping[str, int],
    streams: Mapping[str, Stream] = NO_STREAMS,
    least: int = 0,
) -> list[Record]:
    """Records of five keys, which mostly keep what `streams` declare, in partitions by key unless they say
    otherwise; time moves on, else nearly every row would be late. A few rows and heartbeats are of a far
    future. Partitions are counted by topic."""
    pace = draw(st.sampled_from([0.25, 0.5, 1]))
    kinds = [kind for kind in KINDS if not streams or _stream_of(kind) in streams]
    records = []
    size = draw(st.integers(least, 40))
    for place in range(size):
        seller = draw(st.sampled_from([1, 1, 2, 3, 4]))
        now = place * pace + draw(st.sampled_from([*range(-2, 3)] * 6 + [250_000_000_000]))
        kind = draw(st.sampled_from(kinds))
        stream = _stream_of(kind)
        declared, count = streams.get(stream), partitions[f"all.{stream}"]
        key = draw(_numbers(declared if kind in STREAM_OF else None, 5 * place // size))
        scattered = declared is not None and declared.punctuation_scope == "topic"
        home = draw(st.integers(0, count - 1)) if scattered else keys.home(key, count)
        came = stamp(place * pace)
        if kind == "item":
            row = draw(with_gaps(item(key, now, seller, home, keys), declared, list(keys.types)))
            records.append(replace(row, timestamp=came))
        elif kind == "bid":
            row = bid(key, now, seller, PRICES[seller % 3], home, keys)
            row = draw(with_gaps(row, declared, list(keys.types)))
            records.append(replace(row, timestamp=came))
        elif kind == "bad":
            records.append(raw("bids", b"{"))
        elif kind.endswith("*"):
            records += draw(wider_promises(stream, keys, count))
        elif kind.endswith("~"):
            told, before = now + draw(st.sampled_from([-1, 0, 0.5])), draw(st.booleans())
            records += [
                heartbeat(stream, told, each, before=before, timestamp=came) for each in draw(speakers(count))
            ]
        elif kind.endswith("!"):
            records += draw(promises(stream, keys, count))
        else:
            homes = draw(speakers(count)) if scattered else [home]
            records += [close(stream, key, each, keys) for each in homes]
    return records


def _stream_of(kind: str) -> str:
    return STREAM_OF.get(kind, kind.rstrip("!*~"))


def stamped(*records: tuple[Record, float]) -> list[Record]:
    """Records with Kafka's timestamps, in seconds after `EPOCH`."""
    return [replace(record, timestamp=stamp(seconds)) for record, seconds in records]


def stamp(seconds: float) -> int:
    """A timestamp of Kafka's, in milliseconds, so many seconds after `EPOCH`."""
    return int(1000 * (EPOCH.timestamp() + seconds))


@st.composite
def broken_histories(
    draw: st.DrawFn,
    keys: KeyKind,
    partitions: Mapping[str, int],
    streams: Mapping[str, Stream] = NO_STREAMS,
) -> list[Record]:
    """Histories in which a partition falls silent for a while, and then brings what it had held back.

    Kafka stamps records as they come, nearly.
    """
    records = draw(histories(keys, partitions, streams, least=30))
    topic = draw(
        st.sampled_from(["all.items", "all.bids"] if not streams else [f"all.{name}" for name in streams])
    )
    partition = draw(st.integers(0, partitions[topic] - 1))
    start = draw(st.integers(0, 10))
    end = start + draw(st.integers(10, 25))

    def arrival(place: int) -> int:
        held = (records[place].topic, records[place].partition) == (topic, partition)
        return end if held and start <= place < end else place

    pace = draw(st.sampled_from([0.5, 1]))
    return [
        replace(records[place], timestamp=stamp((now + draw(st.integers(-1, 1))) * pace))
        for now, place in enumerate(sorted(range(len(records)), key=arrival))
    ]


def _numbers(declared: Stream | None, up: int) -> st.SearchStrategy[int]:
    """Keys; of an ordered stream, most of the time those that it has come to."""
    unique = declared is not None and declared.unique
    anywhere = st.integers(0, 8 if unique else 4)
    if declared is None or not (declared.ordered or declared.clustered):
        return anywhere
    now = 4 - up if "descending" in declared.ordered.values() else up
    return st.one_of(st.just(now), st.just(now), anywhere)
