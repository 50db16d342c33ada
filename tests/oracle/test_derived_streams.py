"""Two joins on different keys, batch by batch through the tasks of both stages, against their SQL."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from endmark.pipeline import Pipeline
from endmark.verify.session import Session
from support.bucket_tasks import BucketTasks, Located, Tables, pauses, total, upserted
from support.cases import cases
from support.hashable_rows import hashable_row
from support.kept_promises import broken_promises
from support.sizes import BUCKETS, MERGING
from support.two_stages import (
    NAMES,
    Definition,
    completes,
    ends,
    partition_counts,
    promised_histories,
    row,
    told,
    two_stage_histories,
    two_stage_pipelines,
    two_stages,
)
from support.verify_recompute import SELLERS, recomputed, require_within
from support.verify_world import Record, locate

Row = dict[str, Any]


def counted(rows: list[Row]) -> Counter[tuple[Any, ...]]:
    return Counter(hashable_row(row[name] for name in sorted(row)) for row in rows)


def hold_groups(pipeline: Pipeline, found: Tables) -> None:
    """Assert that the newest row of each group counts its results."""
    key = pipeline.groups[0].key
    newest = {tuple(row[name] for name in key): row for row in found["running"]}
    stage = pipeline.last_stage
    by_key = dict(
        zip(pipeline.key, zip(*map(stage.key_columns, stage.shown_inputs), strict=True), strict=True)
    )

    def value(row: Row, name: str) -> Any:
        columns = by_key.get(name, (name,))
        return next((row[column] for column in columns if row[column] is not None), None)

    results = Counter(tuple(value(row, name) for name in key) for row in found["results"])
    assert {key: row["n"] for key, row in newest.items()} == results
    final = {key: row["n"] for key, row in newest.items() if row["final"]}
    assert {tuple(row[name] for name in key): row["n"] for row in found["groups"]} == final
    event(f"final groups: {bool(final)}")


def in_batches(
    data: st.DataObject, pipeline: Pipeline, located: Sequence[Located], partitions: Mapping[str, int]
) -> Tables:
    """Return all tables after records have come in random batches."""
    size = data.draw(st.integers(1, 20))
    with tempfile.TemporaryDirectory() as directory, data.draw(MERGING).limits():
        tasks = BucketTasks(
            pipeline,
            SELLERS,
            partitions,
            Path(directory),
            full_batch=data.draw(st.sampled_from([None, 1, size])),
            buckets=data.draw(BUCKETS),
            group_buckets=data.draw(BUCKETS),
        )
        batches = [located[at : at + size] for at in range(0, len(located), size)]
        came = [*map(tasks.batch, batches), *pauses(tasks)]
    assert list(broken_promises(pipeline, came)) == []
    return total(came)


def hold(
    data: st.DataObject, pipeline: Pipeline, records: list[Record], partitions: Mapping[str, int]
) -> None:
    """Run records and the ends of all streams in random batches; assert that the tables are those of SQL."""
    located = locate([*records, *ends(pipeline, partitions)])
    found = in_batches(data, pipeline, located, partitions)
    with Session() as session:
        session.run("SET threads = 1")
        definition = Definition(session, pipeline, located, found)
        expected = {"step:paid": counted(definition.paid()), "results": counted(definition.results())}
    for role, rows in expected.items():
        assert not counted(found[role]) - rows
        if completes(pipeline):
            assert counted(found[role]) == rows
    if pipeline.groups:
        hold_groups(pipeline, found)


@cases(9, among=2)
@given(data=st.data())
def test_two_joins_equal_their_sql(data: st.DataObject) -> None:
    """Whatever the joins, the keys, the lookups, the batches and the buckets.

    No row of the first join is late in the second one, which the tasks assert."""
    pipeline, partitions = data.draw(two_stage_pipelines()), data.draw(partition_counts())
    hold(data, pipeline, data.draw(two_stage_histories(pipeline, partitions)), partitions)


@cases(5, among=2)
@given(data=st.data(), kind=st.sampled_from(["inner", "left"]), flipped=st.booleans())
def test_promises_go_through_two_joins(data: st.DataObject, kind: str, flipped: bool) -> None:
    """Tickets and what is paid leave once no bucket has an order or payment of their customer that waits."""
    pipeline = two_stages(
        on=data.draw(st.sampled_from([["customer_id"], ["payer_id"], ["customer_id", "payer_id"]])),
        paid={"type": kind, "purge_every": data.draw(st.integers(1, 3))},
        served={"type": "full"},
        promised={
            "orders": ["order_id", "customer_id"],
            "payments": ["order_id", "payer_id"],
            "tickets": ["customer_id", "payer_id"],
        },
        flipped=flipped,
    )
    partitions = data.draw(partition_counts())
    hold(data, pipeline, data.draw(promised_histories(partitions)), partitions)


@cases(6)
@given(data=st.data())
def test_two_joins_equal_their_recomputation(data: st.DataObject) -> None:
    """Streams may have ended or not, so it also matters which rows without a partner are results by then."""
    pipeline = data.draw(two_stage_pipelines())
    partitions = data.draw(partition_counts())
    histories = two_stage_histories(pipeline, partitions), promised_histories(partitions)
    records: list[Record] = data.draw(data.draw(st.sampled_from(histories)))
    if data.draw(st.integers(0, 3)):
        records += ends(pipeline, partitions)
    found = upserted(pipeline, [in_batches(data, pipeline, locate(records), partitions)])
    results = counted(found["results"])
    event(f"results without a ticket or an order: {any(None in key for key in results)}")
    event(f"final groups: {bool(found.get('groups'))}")
    event(f"punctuations: {bool(found['announced'])}")
    with recomputed(pipeline, records, found, partitions) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize(
    ("on", "by", "closing"),
    [
        ("order_id", "order_id", []),
        ("customer_id", "customer_id", [told("orders", {"customer_id": {"between": {"from": 5, "to": 6}}})]),
        ("customer_id", "payments.payer_id", [told("payments", {"payer_id": {"equals": 3}})]),
    ],
)
def test_a_promise_goes_through_two_joins(on: str, by: str, closing: list[Record], tmp_path: Path) -> None:
    """Its group is final and it is announced, and `verify` finds that out if either is missing."""
    promised = {"orders": ["order_id", "customer_id"], "payments": ["order_id", "payer_id"]}
    pipeline = two_stages(on=[on], by=[by], promised=promised, served={"window": {"paid": "1s"}})
    records = [
        row("orders", 1, order_id=1, customer_id=5),
        row("payments", 1, order_id=1, payer_id=3),
        row("tickets", 1, order_id=1, customer_id=5),
        *closing,
        *(told(name, {"order_id": {"equals": 1}}) for name in ("orders", "payments")),
        row("tickets", 9, order_id=2, customer_id=2),
    ]
    one_each = dict.fromkeys((f"all.{name}" for name in NAMES), 1)
    tasks = BucketTasks(pipeline, SELLERS, one_each, tmp_path)
    found = total([tasks.batch([each]) for each in locate(records)])

    assert [each["n"] for each in found["groups"]] == [1]
    with recomputed(pipeline, records, found, one_each) as session:
        require_within(session, pipeline)
    for missing in (pipeline.groups[0].final_role, "announced"):
        with (
            recomputed(pipeline, records, found | {missing: []}, one_each) as session,
            pytest.raises(AssertionError),
        ):
            require_within(session, pipeline)


@pytest.mark.parametrize("preset", ["auto", "wjoin", "shj"])
@pytest.mark.parametrize("batches", [1, 2, 7])
def test_progress_follows_the_oldest_order_that_waits(preset: str, batches: int, tmp_path: Path) -> None:
    """It passes orders that have left, though they came together with one that waits; so a ticket finds out
    that it has no partner. A preset that keeps orders for longer keeps the ticket waiting."""
    windows = {} if preset == "shj" else {"window": {"orders": "9s", "payments": "9s"}}
    pipeline = two_stages(
        paid={"preset": preset, **windows},
        served={"type": "right", "window": "2s"},
        promised={"payments": ["order_id"]},
    )
    records = [
        *(row("orders", seconds, order_id=number) for number, seconds in ((1, 1), (2, 6))),
        row("tickets", 2, customer_id=5),
        row("orders", 9, order_id=3),
        row("payments", 1, order_id=3),
        Record("all.payments", 0, b'{"$punctuation": {"order_id": {"equals": 1}}}'),
        row("orders", 10, order_id=3),
    ]
    one_each = dict.fromkeys((f"all.{name}" for name in NAMES), 1)
    located = locate(records)
    tasks = BucketTasks(pipeline, SELLERS, one_each, tmp_path, buckets=1)
    size = -(-len(located) // batches)
    came = [tasks.batch(located[at : at + size]) for at in range(0, len(located), size)]
    found = total([*came, *pauses(tasks)])

    assert [each["orders_order_id"] for each in found["results"]] == ([None] if preset == "auto" else [])
    with recomputed(pipeline, records, found, one_each) as session:
        require_within(session, pipeline)
