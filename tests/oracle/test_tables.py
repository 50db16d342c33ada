"""The engine, from Kafka's bytes to its tables, against the recomputation of `verify`.

The two share no code but the pipeline file, so they agree on what a pipeline means or this test fails.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from endmark.engine.bucket import lookups
from endmark.operators.stream_join.presets import Preset
from endmark.pipeline import Pipeline
from endmark.types import JoinType
from endmark.verify.judge.forgotten_keys import check_forgotten
from endmark.wire.control import Turn
from support.bucket_tasks import BucketTasks, Tables, pauses, total
from support.cases import cases
from support.forgetting import forgetting, without_forgotten_keys
from support.kept_promises import broken_promises
from support.random_batches import STEP, in_random_batches
from support.sizes import SIZES
from support.verify_histories import histories, pipelines, stamped
from support.verify_keys import COMPOSITE, KEY_KINDS, LONG, KeyKind
from support.verify_others import OTHERS
from support.verify_recompute import recomputed, require_within, sellers_of
from support.verify_world import PARTITIONS, Record, bid, close, item, locate, make_pipeline, promise

TURNS = [
    Turn("steps.known.lookup.strategy", "mesh", "Ann"),
    Turn("steps.known.lookup.time_per_batch", "0s", "Ann"),
    Turn("steps.known.lookup.time_per_batch", None, "Ann"),
    Turn("steps.known.lookup.memory", 1, "Ann"),
    Turn("steps.known.lookup.page_rows", 1, "Ann"),
    Turn("steps.known.lookup.page_rows", 3, "Ann"),
    Turn("steps.known.lookup.cache.memory", 1, "Ann"),  # which only pipelines with a cache know
    Turn("steps.known.lookup.cache.memory", "1MB", "Ann"),
    Turn("steps.known.lookup.cache.lifetime", "1s", "Ann"),
    Turn("steps.known.lookup.page_rows", 1, "Ann"),
    Turn("steps.known.lookup.cache.lifetime", "0s", "Ann"),
    Turn("steps.known.lookup.time_per_batch", "0s", "Ann"),  # which only some pipelines know
    Turn("steps.matched.purge_every", 3, "Ann"),  # which some presets refuse, and the next
    Turn("steps.matched.memory", 1, "Ann"),
    Turn("steps.matched.memory", None, "Ann"),
]


@pytest.mark.parametrize("kind", [*JoinType, None])
@cases(2, among=25)
@given(data=st.data(), keys=st.sampled_from(list(KEY_KINDS.values())))
def test_tables_equal_their_recomputation(kind: JoinType | None, data: st.DataObject, keys: KeyKind) -> None:
    """Whatever the key, the join, the condition, the knobs and the batches, in which the buckets are not in
    step where rows are parked; and no result breaks a punctuation of an earlier batch."""
    pipeline = data.draw(pipelines(kind, keys, parking=True, several=True, gaps=True))
    sizes = data.draw(SIZES)
    records = data.draw(histories(keys, sizes.partitions, pipeline.streams))
    for turn in data.draw(st.lists(st.sampled_from(TURNS), max_size=3)):
        place = data.draw(st.integers(0, len(records)))
        records.insert(place, Record(pipeline.control_topic, 0, turn.written()))
    came = in_random_batches(data, pipeline, records, sizes)
    assert list(broken_promises(pipeline, came)) == []
    with recomputed(pipeline, records, total(came), sizes.partitions) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize("kind", [JoinType.INNER, JoinType.SEMI, JoinType.LEFT, None])
@cases(2, among=25)
@given(
    data=st.data(), keys=st.sampled_from(list(KEY_KINDS.values())), preset=st.sampled_from(["auto", "wjoin"])
)
def test_forgotten_keys_change_no_table(
    kind: JoinType | None, data: st.DataObject, keys: KeyKind, preset: str
) -> None:
    """If no stream uses a key again long after closing it, no table has more or less, and no group comes
    twice. Rows that do are taken out before."""
    pipeline = data.draw(pipelines(kind, keys, chosen=Preset(preset)).map(forgetting))
    assume(pipeline is not None)
    assert pipeline is not None
    sizes = data.draw(SIZES)
    records = data.draw(histories(keys, sizes.partitions, pipeline.streams))
    records = without_forgotten_keys(pipeline, records, sizes.partitions)
    size = data.draw(st.integers(1, 20))
    with (
        tempfile.TemporaryDirectory() as directory,
        sizes.merging.limits(),
        patch("endmark.operators.stream_join.closed_keys.RECENT", -1),
        patch("endmark.verify.judge.broken_promises.RECENT", -1),
    ):
        tasks = BucketTasks(
            pipeline,
            sellers_of(pipeline),
            sizes.partitions,
            Path(directory),
            others=OTHERS,
            buckets=sizes.buckets,
        )
        located = locate(records)
        batches = [located[at : at + size] for at in range(0, len(located), size)]
        came = [*map(tasks.batch, batches), *pauses(tasks)]

        with recomputed(pipeline, records, total(came), sizes.partitions) as session:
            require_within(session, pipeline)
            assert check_forgotten(session, pipeline) == []


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_rows_out_of_order_are_violations(tmp_path: Path, size: int) -> None:
    """Each for the farthest row before it, a late one too, in whatever batches they come."""
    declared: tuple[dict[str, Any], dict[str, Any]] = ({"ordered": {"item_id": "ascending"}}, {})
    pipeline = make_pipeline(lookup="items", punctuated=(False, True), declared=declared)
    rows = [(2, 5), (0, 6), (4, 7), (4, 4), (8, 3), (6, 8), (8, 9), (9, 9), (8, 9)]
    records = [item(key, at, partition=0) for key, at in rows]

    found = in_batches(pipeline, records, size, tmp_path)

    assert told(found) == [
        (1, "unordered", '{"item_id": {"between": {"to": 1}}}', 0),
        (3, "late", None, None),
        (4, "late", None, None),
        (5, "unordered", '{"item_id": {"between": {"to": 7}}}', 4),
        (8, "unordered", '{"item_id": {"between": {"to": 8}}}', 7),
    ]
    with recomputed(pipeline, records, found=found) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize("scope", ["partition", "topic"])
def test_a_key_is_final_without_a_row(tmp_path: Path, scope: str) -> None:
    """One stream names it, patterns of the other close it, and no row ever had it."""
    declared: tuple[dict[str, Any], dict[str, Any]] = ({}, {"punctuation_scope": scope})
    pipeline = make_pipeline(windows=(None, None), declared=declared, join={"preset": "mjoin"})
    below = {"item_id": {"between": {"to": 3}}}
    patterns = [promise("bids", below, partition) for partition in range(PARTITIONS)]
    records = [*patterns, close("items", 2), close("items", 4)]

    found = in_batches(pipeline, records, len(records), tmp_path)

    assert sorted(row["punctuation"] for row in found["announced"]) == [
        '{"bids_item_id": {"equals": 2}}',
        '{"items_item_id": {"equals": 2}}',
    ]
    with recomputed(pipeline, records, found=found) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_a_unique_key_does_not_come_twice(tmp_path: Path, size: int) -> None:
    """The first row of a key that is processed closes it, if R has no match either; a late one does not, and
    what a punctuation closed first stays closed by it."""
    declared: tuple[dict[str, Any], dict[str, Any]] = ({"unique": ["item_id"]}, {})
    pipeline = make_pipeline(lookup="items", windows=(None, None), declared=declared)
    rows = [item(0, 5, partition=0), item(2, 4, partition=0), item(2, 6, seller=4, partition=0)]
    again = [item(0, 7, partition=0), item(2, 8, partition=0), close("items", 0), close("items", 4)]
    records = [bid(0, 0), *rows, *again, item(4, 9, partition=0), item(0, 9, partition=0), bid(2, 9)]

    found = in_batches(pipeline, records, size, tmp_path)

    assert told(found) == [
        (1, "late", None, None),
        (3, "repeated", '{"item_id": {"equals": 0}}', 0),
        (4, "repeated", '{"item_id": {"equals": 2}}', 2),
        (7, "closed", '{"item_id": {"equals": 4}}', 6),
        (8, "repeated", '{"item_id": {"equals": 0}}', None),
    ]
    with recomputed(pipeline, records, found=found) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_a_record_with_several_matches_is_several_rows(tmp_path: Path, size: int) -> None:
    """Each of them has partners, or none, by itself; but as a violation it is one record, and a unique key
    does not come twice by coming with two rows of R."""
    pipeline = make_pipeline(
        lookup="items",
        looking={"cardinality": "many_to_many"},
        windows=(None, None),
        kind=JoinType.LEFT,
        where="sellers_rating > 0",
        declared=({"unique": ["item_id"]}, {}),
    )
    records = [item(0, 5), bid(0, 6), item(0, 7), item(2, 1), item(2, 8, seller=2), close("bids", 0)]

    found = in_batches(pipeline, records, size, tmp_path)

    results = [(row["sellers_name"], row["bids_kafka_offset"]) for row in found["results"]]
    assert Counter(results) == {("Ann", 0): 1, ("Anna", None): 1}
    assert told(found) == [
        (1, "repeated", '{"item_id": {"equals": 0}}', 0),
        (2, "late", None, None),
    ]
    with recomputed(pipeline, records, found=found) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_a_run_does_not_come_again(tmp_path: Path, size: int) -> None:
    """The first row of another key ends it, late or not; then a row of it is a violation, unless a
    punctuation had closed it before."""
    declared: tuple[dict[str, Any], dict[str, Any]] = ({"clustered": ["item_id"]}, {})
    pipeline = make_pipeline(lookup="items", windows=(None, None), declared=declared)
    rows = [
        item(0, 5, partition=0),
        item(0, 6, partition=0),
        item(2, 4, partition=0),
        item(0, 7, partition=0),
    ]
    again = [item(4, 8, partition=0), close("items", 4), item(6, 9, partition=0), item(4, 9, partition=0)]
    records = [bid(0, 0), *rows, *again, item(2, 9, partition=0), bid(0, 9), bid(6, 9)]

    found = in_batches(pipeline, records, size, tmp_path)

    assert told(found) == [
        (2, "late", None, None),
        (3, "unclustered", '{"item_id": {"equals": 0}}', 2),
        (7, "closed", '{"item_id": {"equals": 4}}', 5),
        (8, "unclustered", '{"item_id": {"equals": 2}}', None),
    ]
    with recomputed(pipeline, records, found=found) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize("size", [1, 2, 3, 9])
@pytest.mark.parametrize("declared", ["unique", "clustered", "ordered", "closes"])
def test_a_row_of_the_future_counts_for_nothing(tmp_path: Path, declared: str, size: int) -> None:
    """Its event time is more than an hour after Kafka's. It makes no later row late or out of order, it takes
    no unique key, ends no run and fires no closing rule."""
    says: dict[str, Any] = {"unique": ["item_id"], "clustered": ["item_id"]}
    says |= {"ordered": {"item_id": "ascending"}, "closes": {"on": "item_id", "when": "seller_id = 3"}}
    pipeline = make_pipeline(lookup="items", declared=({declared: says[declared]}, {}))
    ahead = timedelta(hours=1)
    bold = [item(key, ahead.total_seconds() + 10.000001, seller=3, partition=0) for key in (0, 2)]
    last = (item(0, 0).value or b"").replace(b"2026-01-01", b"9999-12-31")
    bold.append(Record("all.items", 0, last))
    rows = [item(0, 5, partition=0), *bold, item(0, 6, partition=0), item(2, 7, partition=0)]
    just = item(5, ahead.total_seconds() + 10)
    on_time = [(row, 10) for row in rows]
    later = (item(4, 8, partition=0), 9_000)  # Kafka's time goes on, for later records
    records = stamped(*on_time, later, (item(3, 9), 10), (bid(0, 8), 10), (bid(3, 9), 10), (just, 10))
    if declared == "unique":
        del records[0]

    found = in_batches(pipeline, records, size, tmp_path)

    first = 0 if declared == "unique" else 1
    assert told(found) == [(first + at, "future", None, None) for at in range(3)]
    assert len(found["results"]) == (2 if declared == "unique" else 3)
    with recomputed(pipeline, records, found=found) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize("size", [1, 2, 3, 9])
@pytest.mark.parametrize("keys", [LONG, COMPOSITE], ids=["long", "composite"])
def test_a_row_without_a_key_counts_for_nothing(tmp_path: Path, keys: KeyKind, size: int) -> None:
    """It is no result of an outer join, no later row is late because of it, it makes no progress and fires no
    closing rule. It is `null` even if it is of the future."""
    column = list(keys.types)[-1]
    rule = {"closes": {"on": "seller_id", "when": "seller_id = 2"}}
    pipeline = make_pipeline(
        keys=keys, kind=JoinType.LEFT, punctuated=(False, True), nullable=({column}, ()), declared=(rule, {})
    )

    def without(record: Record) -> Record:
        row = json.loads(record.value or b"")
        return replace(record, value=json.dumps(row | {column: None}).encode())

    hour = timedelta(hours=1).total_seconds()
    ahead = [without(item(0, seconds, 2, partition=0, keys=keys)) for seconds in (100, 3 * hour)]
    rows = [item(0, 5, partition=0, keys=keys), *ahead, item(0, 6, 2, partition=0, keys=keys)]
    records = stamped(
        *((row, 10) for row in rows), (bid(0, 5, keys=keys), 10), (close("bids", 0, keys=keys), 10)
    )

    found = in_batches(pipeline, records, size, tmp_path)

    assert told(found) == [(1, "null", None, None), (2, "null", None, None)]
    assert [json.loads(row["record"])[column] for row in found["violations"]] == [None, None]
    assert sorted(row["items_kafka_offset"] for row in found["results"]) == [0, 3]
    with recomputed(pipeline, records, found=found) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize("park", [False, True])
def test_a_row_without_a_looked_up_key_has_no_match(tmp_path: Path, park: bool) -> None:
    """It is not parked, since R never has it, and holds back no later row."""
    miss: Any = {"park": {"delay": "1s", "attempts": 2, "then": "dead_letter"}} if park else "dead_letter"
    pipeline = make_pipeline(looking={"miss": miss}, nullable=((), {"seller_id"}), windows=(None, None))
    lacking = (bid(0, 1).value or b"").replace(b'"seller_id": 1, ', b"")
    records = [item(0, 0), bid(0, 1), replace(bid(0, 1), value=lacking), bid(0, 2)]

    clock = count(0, STEP)
    with patch.object(lookups, "_now", clock.__next__):
        tasks = BucketTasks(pipeline, sellers_of(pipeline), PARTITIONS, tmp_path)
        found = total([tasks.batch(locate(records)), *pauses(tasks)])

    assert [(row["offset"], row["reason"]) for row in found["dead_letters"]] == [(1, "no_match")]
    assert found["dead_letters"][0]["value"] == lacking
    assert sorted(row["bids_kafka_offset"] for row in found["results"]) == [0, 2]
    with recomputed(pipeline, records, found=found) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize("time_per_batch", [None, "0ms"])
@pytest.mark.parametrize(("lookup", "other"), [("items", "bids"), ("bids", "items")])
def test_a_pattern_waits_for_parked_rows(
    tmp_path: Path, lookup: str, other: str, time_per_batch: str | None
) -> None:
    """A bucket that parks a row has not heard of what came with it: what the others release is announced when
    the row's results are out."""
    park = {"delay": "1s", "attempts": 3, "then": "nulls"}
    looking = {"miss": {"park": park}, "time_per_batch": time_per_batch}
    pipeline = make_pipeline(lookup=lookup, wider=("seller_id",), looking=looking)
    of_nobody = {"seller_id": {"equals": 4}}
    patterns = [promise(lookup, of_nobody, partition) for partition in range(PARTITIONS)]
    rows: dict[str, Callable[..., Record]] = {"items": item, "bids": bid}
    records = [rows[other](0, 1), rows[lookup](0, 1, 4), rows[lookup](1, 1, 1)]
    records += [*patterns, close(other, 0)]
    clock = count(0, STEP)
    with patch.object(lookups, "_now", clock.__next__):
        tasks = BucketTasks(pipeline, sellers_of(pipeline), PARTITIONS, tmp_path)
        batches = [tasks.batch(locate(records)), *pauses(tasks)]

    results = [at for at, found in enumerate(batches) if found["results"]]
    pattern = {"punctuation": f'{{"{lookup}_seller_id": {{"equals": 4}}}}', "completed_by": "closed"}
    announced = [at for at, found in enumerate(batches) if pattern in found["announced"]]
    assert results == announced
    assert results[0] > 1
    with recomputed(pipeline, records, found=total(batches)) as session:
        require_within(session, pipeline)


def in_batches(pipeline: Pipeline, records: list[Record], size: int, directory: Path) -> Tables:
    """The rows of each table after batches of so many records."""
    tasks = BucketTasks(pipeline, sellers_of(pipeline), PARTITIONS, directory)
    located = locate(records)
    return total(tasks.batch(located[at : at + size]) for at in range(0, len(located), size))


def told(found: Tables) -> list[tuple[Any, ...]]:
    """Return offset, reason, promise and its offset of each violation, sorted."""
    names = ("offset", "reason", "promise", "promise_offset")
    return sorted(tuple(row[name] for name in names) for row in found["violations"])


def test_each_row_meets_the_version_of_its_time(tmp_path: Path) -> None:
    """A version holds from its own moment on; before the first one the row has no match.

    Random worlds put out so few rows with several versions that 240 of them noticed no wrong choice.
    """
    pipeline = make_pipeline(
        windows=(60, 60), looking={"as_of": {"stream": "bid_at", "relation": "since"}, "miss": "nulls"}
    )
    seconds = (0.5, 1, 1.5, 2, 7, 20, 30)
    records = [item(1, 0), *(bid(1, second) for second in seconds)]

    found = BucketTasks(pipeline, sellers_of(pipeline), PARTITIONS, tmp_path).batch(locate(records))

    names = {row["bids_kafka_offset"]: row["sellers_name"] for row in found["results"]}
    assert [names[at] for at in range(len(seconds))] == [None, "v19", "v19", "v18", "v13", "v0", "v0"]
    with recomputed(pipeline, records, found=found) as session:
        require_within(session, pipeline)
