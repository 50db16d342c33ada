"""The recomputation on random worlds, against nested loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from endmark.pipeline import Pipeline
from endmark.types import JoinType
from support.cases import cases
from support.sizes import SIZES, speakers
from support.verify_alone import alone
from support.verify_came import Expected
from support.verify_gaps import with_gaps
from support.verify_histories import (
    MATCHINGS,
    PRICES,
    STREAM_OF,
    declarations,
    matched,
    misses,
    nullable_columns,
)
from support.verify_keys import KEY_KINDS, KeyKind
from support.verify_measures import any_measures
from support.verify_oracle import recompute
from support.verify_others import other_lookups
from support.verify_recompute import (
    COMPARED,
    known_rows,
    oracle_rows,
    recomputed,
    rows_of,
    sellers_of,
    tables_of,
)
from support.verify_world import (
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

KINDS = ["item"] * 4 + ["bid"] * 6 + ["close items"] * 2 + ["close bids"] * 2 + ["bad"]
DRAWN = st.tuples(
    st.sampled_from(KINDS),
    st.integers(0, 4),
    st.integers(-3, 3),
    st.sampled_from([1, 1, 2, 3, 4]),
    st.sampled_from([None] * 12 + [0, 1, 2, 3]),  # few records stray from their key's partition
)
BAD = [raw(stream, value) for stream in ("items", "bids") for value in (None, b"", b"{", b"\xff")]


CONDITIONS: dict[str | None, Callable[[dict[str, Any]], bool]] = {
    None: lambda pair: True,
    "bids_price >= 0.1 AND items_seller_id <> bids_seller_id": lambda pair: (
        None not in (pair["bids_price"], pair["items_seller_id"], pair["bids_seller_id"])
        and pair["bids_price"] >= 0.1
        and pair["items_seller_id"] != pair["bids_seller_id"]
    ),
    # Of a seller without a rating it is unknown, which is not true. The comment must not swallow more.
    "SELLERS_rating > 0 OR bids_due = DATE '2026-01-12' -- a comment": lambda pair: (
        (pair["sellers_rating"] or 0) > 0 or pair["bids_due"] == date(2026, 1, 12)
    ),
    # It fails on sellers above 1, whatever its other part says. Every price is above -9.
    "bids_price > -9 OR items_seller_id + 9223372036854775806 > 0": lambda pair: (
        pair["bids_price"] is not None if pair["items_seller_id"] is None else pair["items_seller_id"] <= 1
    ),
    "bids_tip > 1.5": lambda pair: pair["bids_tip"] is not None and pair["bids_tip"] > Decimal("1.5"),
    # It is unknown, and so is its negation, where there is no note.
    "NOT (bids_note LIKE 'x%')": lambda pair: pair["bids_note"] is not None,
    "bids_tip IS NULL": lambda pair: pair["bids_tip"] is None,
}


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Pipeline, list[Record], Mapping[str, int]]:
    """A pipeline with small bounds, records of five keys, some of which are bad, or break promises, and how
    many partitions each topic has."""
    partitions = draw(SIZES).partitions
    bound = st.one_of(st.integers(0, 5), st.none())
    keys = draw(st.sampled_from(list(KEY_KINDS.values())))
    lookup, kind = draw(st.sampled_from(["items", "bids"])), draw(st.sampled_from(JoinType))
    punctuated = draw(st.sampled_from([(True, True), (True, True), (True, False), (False, True)]))
    declared = draw(declarations(keys, gaps=True)), draw(declarations(keys, gaps=True))
    wider: tuple[str, ...] = draw(st.sampled_from([(), ("seller_id",)]))
    pipeline = make_pipeline(
        windows=(draw(bound), draw(bound)),
        lateness=(draw(st.integers(0, 3)), draw(st.integers(0, 3))),
        lookup=lookup,
        looking={
            **matched(draw(st.sampled_from(MATCHINGS)), lookup),
            "miss": draw(misses(parking=False)),
        },
        others=draw(other_lookups(misses(parking=False), lookup)),
        punctuated=punctuated,
        keys=keys,
        kind=kind,
        where=draw(st.sampled_from(list(CONDITIONS))),
        declared=declared,
        nullable=draw(nullable_columns(keys, declared, punctuated, wider)),
        wider=wider,
        timed=(draw(st.booleans()), draw(st.booleans())),
        measures=draw(st.one_of(st.none(), any_measures(lookup, kind))),
    )
    # Time moves on, since in a random order nearly every row would be late.
    pace = draw(st.sampled_from([0.25, 0.5, 1]))
    size = draw(st.integers(0, 60))
    drawn = draw(st.lists(DRAWN, min_size=size, max_size=size))
    records = []
    for place, each in enumerate(drawn):
        record = _make(keys, partitions, place * pace, *each)
        if each[0] in ("item", "bid"):
            declaring = pipeline.streams[STREAM_OF[each[0]]]
            record = draw(with_gaps(record, declaring, list(keys.types)))
        records.append(record)
        if draw(st.integers(0, 9)) == 0:
            stream = draw(st.sampled_from(["items", "bids"]))
            records += draw(promises(stream, keys, partitions[f"all.{stream}"]))
        if draw(st.integers(0, 9)) == 0:
            stream = draw(st.sampled_from(["items", "bids"]))
            records += draw(wider_promises(stream, keys, partitions[f"all.{stream}"]))
        if draw(st.integers(0, 9)) == 0:
            stream, before = draw(st.sampled_from(["items", "bids"])), draw(st.booleans())
            seconds = place * pace + draw(st.sampled_from([*range(-3, 4)] * 3 + [40_000_000]))
            homes = draw(speakers(partitions[f"all.{stream}"]))
            records += [heartbeat(stream, seconds, home, before=before) for home in homes]
        if draw(st.integers(0, 9)) == 0:
            stream, key = draw(st.sampled_from(["items", "bids"])), draw(st.integers(0, 4))
            if pipeline.streams[stream].punctuation_scope == "topic":
                homes = draw(speakers(partitions[f"all.{stream}"]))
                records += [close(stream, key, home, keys) for home in homes]
    return pipeline, records, partitions


def _make(
    keys: KeyKind,
    partitions: Mapping[str, int],
    now: float,
    kind: str,
    key: int,
    jitter: int,
    seller: int,
    stray: int | None,
) -> Record:
    stream = STREAM_OF.get(kind, kind.removeprefix("close "))
    count = partitions[f"all.{stream}"]
    partition = keys.home(key, count) if stray is None else stray % count
    match kind:
        case "item":
            return item(key, now + jitter, seller, partition, keys)
        case "bid":
            return bid(key, now + jitter, seller, PRICES[seller % 3], partition, keys)
        case "bad":
            return BAD[(key + seller) % len(BAD)]
    return close(stream, key, partition, keys)


@cases(9, among=20)
@given(worlds())
def test_random_worlds_are_as_nested_loops_have_them(
    world: tuple[Pipeline, list[Record], Mapping[str, int]],
) -> None:
    """All four tables equal the brute-force reading of the definitions, as multisets."""
    pipeline, records, partitions = world
    assert pipeline.join is not None
    expected = require_expected(pipeline, records, partitions, CONDITIONS[pipeline.join.where])
    event(f"{pipeline.join.type}: {'some' if expected.groups else 'no'} groups")


@cases(6, among=20)
@given(worlds(), st.sampled_from(["items", "bids"]))
def test_random_streams_alone_are_as_loops_have_them(
    world: tuple[Pipeline, list[Record], Mapping[str, int]], stream: str
) -> None:
    """Without a join: each row that the lookups let through is a result."""
    joined, records, partitions = world
    pipeline, topic = alone(joined, stream), f"all.{stream}"
    records = [record for record in records if record.topic == topic]
    expected = require_expected(pipeline, records, {topic: partitions[topic]})
    event(f"{'some' if expected.groups else 'no'} groups")


def require_expected(
    pipeline: Pipeline,
    records: list[Record],
    partitions: Mapping[str, int],
    condition: Callable[[dict[str, Any]], bool] = lambda pair: True,
) -> Expected:
    """Hold DuckDB's tables against the loops', and return those of the loops."""
    expected = recompute(pipeline, records, sellers_of(pipeline), condition, partitions)
    with recomputed(pipeline, records, partitions=partitions) as session:
        for table in COMPARED.keys() & set(tables_of(pipeline)):
            assert known_rows(rows_of(session, table), table) == oracle_rows(expected, table), table
            event(f"{table}: {'some' if getattr(expected, table) else 'none'}")
    return expected
