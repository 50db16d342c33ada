"""The recomputation follows the definitions: against nested loops on random worlds, and at every bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from endmark.pipeline import Pipeline
from endmark.verify.classify import classify
from endmark.verify.expect import expect
from endmark.verify.run import load_records
from endmark.verify.session import Session
from support.verify_oracle import Expected, Sellers, recompute
from support.verify_world import (
    PARTITIONS,
    Record,
    Row,
    arrow_schema,
    bid,
    close,
    item,
    make_pipeline,
    raw,
    to_kafka,
)

SELLERS: Sellers = {1: ("Ann", 4.5), 2: ("Bo", None), 3: (None, -0.5)}
COMPARED = {
    "results": slice(None),
    "groups": slice(None),
    "dead_letters": slice(None),
    "violations": slice(0, 5),
}


@contextmanager
def recomputed(pipeline: Pipeline, records: list[Record], sellers: Sellers = SELLERS) -> Iterator[Session]:
    """A session in which DuckDB has recomputed everything."""
    with Session() as session:
        load_records(session, *to_kafka(records))
        classify(session, pipeline)
        columns = {f"sellers_{name}": kind for name, kind in pipeline.relations["sellers"].columns.items()}
        session.create("relation", columns)
        rows = [dict(zip(columns, (key, *seller), strict=True)) for key, seller in sellers.items()]
        relation = pa.Table.from_pylist(rows, schema=arrow_schema(columns))
        session.run_on(relation, "INSERT INTO relation SELECT * FROM arriving")
        expect(session, pipeline)
        yield session


def rows_of(session: Session, table: str) -> Counter[Row]:
    found = session.run(f"SELECT * FROM expected_{table}")  # noqa: S608
    return Counter(tuple(row.values()) for row in found)


def oracle_rows(expected: Expected, table: str) -> Counter[Row]:
    rows: list[Row] = getattr(expected, table)
    if table == "dead_letters":
        rows = [(*row[:3], row[5]) for row in rows]
    return Counter(row[COMPARED[table]] for row in rows)


def groups(pipeline: Pipeline, records: list[Record]) -> dict[int, int]:
    """Final groups as item -> number of bids, agreed by DuckDB and the oracle."""
    with recomputed(pipeline, records) as session:
        found = rows_of(session, "groups")
    assert found == oracle_rows(recompute(pipeline, records, SELLERS), "groups")
    return {row[0]: row[1] for row in found}


def violations(pipeline: Pipeline, records: list[Record]) -> list[tuple[str, int, int, str]]:
    with recomputed(pipeline, records) as session:
        return sorted(row[:4] for row in rows_of(session, "violations"))


def joined(pipeline: Pipeline, records: list[Record]) -> int:
    with recomputed(pipeline, records) as session:
        return session.count("expected_results")


KINDS = ["item"] * 4 + ["bid"] * 6 + ["close items"] * 2 + ["close bids"] * 2 + ["bad"]
DRAWN = st.tuples(
    st.sampled_from(KINDS),
    st.integers(0, 4),
    st.integers(-3, 3),
    st.sampled_from([1, 1, 2, 3, 4]),
    st.sampled_from([None] * 12 + [0, 1]),  # few records stray from their key's partition
)
BAD = [raw(stream, value) for stream in ("items", "bids") for value in (None, b"", b"{", b"\xff")]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Pipeline, list[Record]]:
    """A pipeline with small bounds, and records of five keys; some are bad, some break promises."""
    bound = st.one_of(st.integers(0, 5), st.none())
    pipeline = make_pipeline(
        windows=(draw(bound), draw(bound)),
        lateness=(draw(st.integers(0, 3)), draw(st.integers(0, 3))),
        lookup=draw(st.sampled_from(["items", "bids"])),
        punctuated=draw(st.sampled_from([(True, True), (True, False), (False, True)])),
    )
    # Time moves on, since in a random order nearly every row would be late.
    pace = draw(st.sampled_from([0.25, 0.5, 1]))
    size = draw(st.integers(0, 60))
    drawn = draw(st.lists(DRAWN, min_size=size, max_size=size))
    return pipeline, [_make(place * pace, *each) for place, each in enumerate(drawn)]


def _make(now: float, kind: str, key: int, jitter: int, seller: int, partition: int | None) -> Record:
    match kind:
        case "item":
            return item(key, now + jitter, seller, partition)
        case "bid":
            return bid(key, now + jitter, seller, [0.1, 2.0, -3.5][seller % 3], partition)
        case "bad":
            return BAD[(key + seller) % len(BAD)]
    return close(kind.removeprefix("close "), key, partition)


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_random_worlds_are_as_nested_loops_have_them(world: tuple[Pipeline, list[Record]]) -> None:
    """All four tables equal the brute-force reading of the definitions, as multisets."""
    pipeline, records = world
    expected = recompute(pipeline, records, SELLERS)
    with recomputed(pipeline, records) as session:
        for table in COMPARED:
            assert rows_of(session, table) == oracle_rows(expected, table), table
            event(f"{table}: {'some' if getattr(expected, table) else 'none'}")


@pytest.mark.parametrize(
    ("listed", "bid_at", "pairs"), [(10, 13, 1), (10, 13.000001, 0), (12, 10, 1), (12.000001, 10, 0)]
)
def test_both_window_bounds_belong_to_the_window(listed: float, bid_at: float, pairs: int) -> None:
    """A pair exactly `window.left` or `window.right` apart joins, a microsecond more does not."""
    assert joined(make_pipeline(windows=(3, 2)), [item(1, listed), bid(1, bid_at)]) == pairs


def test_a_window_without_end_joins_for_ever() -> None:
    """A row without a window meets every later row of its key, however far away; the other way is bounded."""
    far = 10_000_000
    assert (
        joined(make_pipeline(windows=(None, 0)), [item(1, 0), bid(1, far), bid(3, far), item(3, far + 1)])
        == 1
    )
    assert (
        joined(make_pipeline(windows=(0, None)), [item(1, 0), bid(1, far), bid(3, far), item(3, far + 1)])
        == 1
    )


def test_a_row_may_be_exactly_lateness_behind() -> None:
    """A row `lateness` behind the newest before it is processed, a microsecond more is late."""
    records = [bid(1, 10), bid(1, 7), bid(1, 6.999999), bid(0, 0)]
    assert violations(make_pipeline(lateness=(0, 3)), records) == [("all.bids", 1, 2, "late")]


def test_a_violation_too_moves_its_partition_in_time() -> None:
    """The newest event time counts closed rows as well, so the row after one can be late."""
    records = [close("bids", 1), bid(1, 10), bid(3, 9)]
    assert violations(make_pipeline(), records) == [("all.bids", 1, 1, "closed"), ("all.bids", 1, 2, "late")]


def test_a_promise_speaks_for_its_own_partition_from_then_on() -> None:
    """Rows before a punctuation and rows of other partitions are processed; closed comes before late."""
    elsewhere = [bid(0, 5), bid(0, 5), bid(1, 5, partition=0)]
    records = [bid(1, 5), close("bids", 1), bid(1, 0), *elsewhere, close("bids", 1), bid(1, 6)]
    assert violations(make_pipeline(), records) == [
        ("all.bids", 1, 2, "closed"),
        ("all.bids", 1, 4, "closed"),
    ]


def test_rows_without_a_match_are_processed_but_never_join() -> None:
    """A lookup miss is no violation, joins nothing and keeps no group open."""
    pipeline = make_pipeline(windows=(None, None))
    records = [item(1, 0), bid(1, 0), bid(1, 0, seller=9), close("bids", 1), bid(0, 0), item(0, 0)]
    assert violations(pipeline, records) == []
    assert joined(pipeline, records) == 2
    assert groups(pipeline, records) == {}
    assert groups(pipeline, [*records, close("items", 1)]) == {1: 1}


def test_a_group_is_final_when_both_streams_closed_it() -> None:
    """One promise alone leaves a group open while the window is; the second closes it."""
    pipeline = make_pipeline(windows=(None, None))
    records = [item(1, 0), bid(1, 0), bid(1, 1), close("bids", 1)]
    assert groups(pipeline, records) == {}
    assert groups(pipeline, [*records, close("items", 1)]) == {1: 2}


def test_a_group_is_final_when_the_window_has_passed_and_not_at_its_bound() -> None:
    """Progress exactly at the end of the window leaves the group open: a row there may still come."""
    pipeline = make_pipeline(windows=(3, 0), lateness=(0, 2))
    records = [item(1, 10), bid(1, 10), close("items", 1), bid(0, 20)]
    assert groups(pipeline, [*records, bid(1, 15)]) == {}
    assert groups(pipeline, [*records, bid(1, 15.000001)]) == {1: 1}


def test_a_silent_partition_holds_progress_back() -> None:
    """A partition without rows, even one with dead letters or punctuations, keeps windows open."""
    pipeline = make_pipeline(windows=(3, 0))
    records = [item(1, 10), bid(1, 10), close("items", 1), bid(1, 99), raw("bids", b"?"), close("bids", 0)]
    assert groups(pipeline, records) == {}
    assert groups(pipeline, [*records, bid(2, 20)]) == {1: 1}


def test_nothing_comes_of_nothing() -> None:
    """Empty topics give empty tables."""
    with recomputed(make_pipeline(), []) as session:
        assert not any(session.count(f"expected_{table}") for table in COMPARED)


def test_partitions_are_those_of_the_ranges() -> None:
    """The worlds here have as many partitions as the oracle believes."""
    found: list[Any] = to_kafka([])[0]
    assert len(found) == 2 * PARTITIONS
