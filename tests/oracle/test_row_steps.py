"""Row steps in the engine, against the recomputation of `verify`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.engine import channels
from endmark.pipeline import Pipeline
from endmark.state import codec
from endmark.types import JoinType
from support.bucket_tasks import BucketTasks, Tables, total
from support.cases import cases
from support.kept_promises import broken_promises
from support.sizes import SIZES
from support.verify_histories import histories, pipelines
from support.verify_keys import KEY_KINDS, LONG, KeyKind
from support.verify_others import OTHERS
from support.verify_recompute import recomputed, require_within, sellers_of
from support.verify_steps import with_row_step, with_row_steps, with_steps
from support.verify_world import PARTITIONS, Record, bid, close, heartbeat, item, locate, make_pipeline, raw

BATCH_SIZES = [1, 2, 3, 9]
OPEN: dict[str, Any] = {"windows": (None, None), "punctuated": (False, True)}


@pytest.mark.parametrize("kind", [*JoinType, None])
@cases(2, among=25)
@given(data=st.data(), keys=st.sampled_from(list(KEY_KINDS.values())))
def test_rows_behind_steps_equal_their_recomputation(
    kind: JoinType | None, data: st.DataObject, keys: KeyKind
) -> None:
    """Whatever the streams declare: filtered rows keep their promises, and failing rows are dead letters."""
    pipeline = data.draw(with_row_steps(data.draw(pipelines(kind, keys, several=True, gaps=True))))
    sizes = data.draw(SIZES)
    located = locate(records := data.draw(histories(keys, sizes.partitions, pipeline.streams)))
    size = data.draw(st.integers(1, 20))

    with tempfile.TemporaryDirectory() as directory, sizes.merging.limits():
        tasks = BucketTasks(
            pipeline,
            sellers_of(pipeline),
            sizes.partitions,
            Path(directory),
            others=OTHERS,
            buckets=sizes.buckets,
        )
        batches = [located[at : at + size] for at in range(0, len(located), size)]
        came = [tasks.batch(batch) for batch in [*batches, []]]

    assert list(broken_promises(pipeline, came)) == []
    with recomputed(pipeline, records, total(came), sizes.partitions) as session:
        require_within(session, pipeline)


@cases(3, among=25)
@given(data=st.data(), wider=st.sampled_from([(), ("seller_id",)]))
def test_a_derived_key_equals_its_recomputation(data: st.DataObject, wider: tuple[str, ...]) -> None:
    """Rows without it are violations, unless they are filtered; patterns on other columns still count."""
    pipeline = make_pipeline(
        windows=(5, data.draw(st.sampled_from([2, None]))),
        lateness=(1, 1),
        punctuated=(False, False),
        wider=wider,
        aggregated=False,
        kind=data.draw(st.sampled_from(JoinType)),
    )
    steps: dict[str, Any] = {}
    for stream in pipeline.streams:
        derive = {"pair": "CASE WHEN seller_id <> 3 THEN 'no. ' || item_id % 3 END"}
        where = data.draw(st.sampled_from([None, "seller_id <> 2", "seller_id <> 3"]))
        steps[f"paired_{stream}"] = {"from": stream, "derive": derive, "where": where}
    pipeline = with_steps(pipeline, steps, on=["pair"])
    sizes = data.draw(SIZES)
    located = locate(records := data.draw(histories(LONG, sizes.partitions, pipeline.streams)))
    size = data.draw(st.integers(1, 20))

    with tempfile.TemporaryDirectory() as directory, sizes.merging.limits():
        tasks = BucketTasks(
            pipeline, sellers_of(pipeline), sizes.partitions, Path(directory), buckets=sizes.buckets
        )
        batches = [located[at : at + size] for at in range(0, len(located), size)]
        came = [tasks.batch(batch) for batch in [*batches, []]]

    with recomputed(pipeline, records, total(came), sizes.partitions) as session:
        require_within(session, pipeline)


def in_batches(pipeline: Pipeline, records: list[Record], size: int, directory: Path) -> Tables:
    """All tables, which equal their recomputation."""
    located = locate(records)
    tasks = BucketTasks(pipeline, sellers_of(pipeline), PARTITIONS, directory)
    found = total(tasks.batch(located[at : at + size]) for at in range(0, len(located) + 1, size))
    with recomputed(pipeline, records, found=found) as session:
        require_within(session, pipeline)
    return found


def told(found: Tables) -> list[tuple[Any, ...]]:
    rows = found["violations"]
    return sorted((row["topic"][4:], row["offset"], row["reason"], row["promise_offset"]) for row in rows)


def joined(found: Tables) -> list[tuple[int, int]]:
    return sorted((row["items_kafka_offset"], row["bids_kafka_offset"]) for row in found["results"])


@pytest.mark.parametrize("size", BATCH_SIZES)
def test_a_filtered_row_takes_its_unique_key(tmp_path: Path, size: int) -> None:
    """Its group does not stay open, and a later row of the key breaks a promise."""
    pipeline = make_pipeline(**OPEN, lookup="bids", declared=({"unique": "item_id"}, {}))
    pipeline = with_row_step(pipeline, "items", where="seller_id <> 2")
    records = [item(0, 0), item(2, 1, seller=2), item(2, 2), item(4, 3), bid(0, 0), bid(2, 0), bid(4, 0)]

    found = in_batches(pipeline, [*records, close("bids", 0), close("bids", 2)], size, tmp_path)

    assert told(found) == [("items", 2, "repeated", 1)]
    assert joined(found) == [(0, 0), (3, 2)]
    assert [row["item_id"] for row in found["groups"]] == [0]


@pytest.mark.parametrize("size", BATCH_SIZES)
def test_a_filtered_row_is_of_a_run(tmp_path: Path, size: int) -> None:
    """It ends the run before it, and its own run ends."""
    pipeline = make_pipeline(**OPEN, lookup="bids", declared=({"clustered": "item_id"}, {}))
    pipeline = with_row_step(pipeline, "items", where="seller_id <> 2")
    records = [item(0, 0), item(2, 1, seller=2), item(0, 2), item(4, 3), item(2, 4), bid(0, 0), bid(4, 0)]

    found = in_batches(pipeline, [*records, close("bids", 0)], size, tmp_path)

    assert told(found) == [("items", 2, "unclustered", 1), ("items", 4, "unclustered", 2)]
    assert [row["item_id"] for row in found["groups"]] == [0]


@pytest.mark.parametrize("size", BATCH_SIZES)
def test_a_filtered_row_is_in_order(tmp_path: Path, size: int) -> None:
    """Rows behind it must not go back, and keys before its own are closed."""
    pipeline = make_pipeline(**OPEN, lookup="bids", declared=({"ordered": {"item_id": "ascending"}}, {}))
    pipeline = with_row_step(pipeline, "items", where="seller_id <> 2")
    records = [item(0, 0), item(1, 0), item(4, 1, seller=2), item(2, 2), item(3, 2, seller=2), bid(0, 0)]

    found = in_batches(pipeline, [*records, close("bids", 0)], size, tmp_path)

    assert told(found) == [("items", 2, "unordered", 1)]
    assert [row["item_id"] for row in found["groups"]] == [0]


@pytest.mark.parametrize("size", BATCH_SIZES)
def test_a_closing_rule_asks_the_streams_own_columns(tmp_path: Path, size: int) -> None:
    """Promises count of rows that are filtered, and of columns that the step has lost."""
    rule = {"closes": {"on": "item_id", "when": "urgent"}}
    pipeline = make_pipeline(
        windows=(None, None), lookup="items", punctuated=(True, False), declared=({}, rule)
    )
    pipeline = with_row_step(pipeline, "bids", where="seller_id < 4", drop=["urgent", "note"])
    records = [item(0, 0), bid(0, 1, seller=1), bid(0, 2, seller=4), bid(0, 3, seller=3), close("items", 0)]

    found = in_batches(pipeline, records, size, tmp_path)

    assert told(found) == [("bids", 2, "closed", 1)]
    assert json.loads(found["violations"][0]["record"]).keys() == {
        *("item_id", "seller_id", "price", "due", "tip", "bid_at")
    }
    assert [row["item_id"] for row in found["groups"]] == [0]
    assert "bids_urgent" not in found["results"][0]


@pytest.mark.parametrize("size", BATCH_SIZES)
def test_a_filtered_row_advances_time(tmp_path: Path, size: int) -> None:
    """It makes rows late, but is no violation if it is late or has no key; a heartbeat does the same. It has
    no effect if its clock is wrong."""
    pipeline = make_pipeline(
        windows=(0, 0), lookup="bids", nullable=(["item_id"], []), punctuated=(False, True)
    )
    pipeline = with_row_step(pipeline, "items", where="seller_id <> 2")
    keyless = json.loads(item(0, 5, seller=2).value or b"") | {"item_id": None}
    ahead = 366 * 86_400
    records = [
        item(0, 4, seller=2),
        item(0, 3),
        item(0, 1, seller=2),
        raw("items", json.dumps(keyless).encode()),
        item(0, 4.5),
        item(0, ahead, seller=2),
        item(0, 6),
        heartbeat("items", 7, 0),
        item(0, 7, seller=2),
        item(0, 7),
    ]

    found = in_batches(pipeline, records, size, tmp_path)

    assert told(found) == [("items", 1, "late", None), ("items", 4, "late", None), ("items", 9, "late", None)]


@pytest.mark.parametrize("size", BATCH_SIZES)
@pytest.mark.parametrize("declared", ["unique", "clustered", "ordered", "closes"])
def test_a_failing_row_counts_for_nothing(tmp_path: Path, declared: str, size: int) -> None:
    """It is a dead letter with its bytes, as if it could not be read, and can be mended and sent again."""
    says: dict[str, Any] = {
        "unique": "item_id",
        "clustered": "item_id",
        "ordered": {"item_id": "ascending"},
        "closes": {"on": "item_id", "when": "seller_id = 4"},
    }
    pipeline = make_pipeline(**OPEN, lookup="bids", declared=({declared: says[declared]}, {}))
    pipeline = with_row_step(pipeline, "items", derive={"x": "seller_id + 9223372036854775804"})
    bad = item(2, 9, seller=4)
    records = [item(0, 0), bad, item(0, 1) if declared != "unique" else item(4, 1), item(2, 2), bid(2, 0)]

    found = in_batches(pipeline, records, size, tmp_path)

    assert told(found) == []
    assert joined(found) == [(3, 0)]
    (letter,) = found["dead_letters"]
    assert (letter["topic"], letter["offset"], letter["value"]) == ("all.items", 1, bad.value)
    assert letter["reason"] == "expression"
    assert letter["error"].startswith("steps.first.derive.x: Out of Range Error: Overflow in addition")


@pytest.mark.parametrize("size", BATCH_SIZES)
def test_a_row_without_a_match_keeps_its_bytes(tmp_path: Path, size: int) -> None:
    """Its dead letter has those of its own record, not of one that the step has filtered."""
    pipeline = make_pipeline(lookup="bids", looking={"miss": "dead_letter"})
    pipeline = with_row_step(pipeline, "bids", where="seller_id <> 2")
    lost = bid(0, 2, seller=9)

    found = in_batches(pipeline, [bid(0, 0, seller=2), bid(0, 1), lost, bid(0, 3, seller=2)], size, tmp_path)

    (letter,) = found["dead_letters"]
    assert (letter["offset"], letter["reason"], letter["value"]) == (2, "no_match", lost.value)


def test_what_a_step_does_is_counted(tmp_path: Path) -> None:
    """Filtered rows by step; failing rows count for the quarantine, since an expression may be wrong. Rows
    are packed without what the step has dropped."""
    where = "seller_id + 9223372036854775804 < 0 OR seller_id = 1"
    pipeline = with_row_step(make_pipeline(), "bids", where=where, drop=["urgent", "note"])
    tasks = BucketTasks(pipeline, sellers_of(pipeline), PARTITIONS, tmp_path)

    packed = tasks.pack(locate([bid(0, 0), bid(0, 1, seller=2), bid(0, 2, seller=4)]))

    (report,) = [json.loads(row["blob"]) for row in packed if row["channel"] == channels.METRICS]
    assert report["samples"]["filtered_rows_total{step=first,stream=bids}"] == 1
    assert report["samples"]["dead_letters_total{reason=expression,stream=bids}"] == 1
    assert report["samples"]["rows_total{stream=bids}"] == 3
    assert report["unreadable"]["bids"]["expression"]["records"] == 1
    (rows,) = [codec.decode(row["blob"]) for row in packed if row["channel"] == "rows:bids"]
    assert rows.num_rows == 1
    assert not {"bids_urgent", "bids_note"} & set(rows.schema.names)


ONCE = {"by": ["item_id"], "within": "2s"}


def deduplicated(rule: dict[str, Any] = ONCE, stream: str = "items", **world: Any) -> Pipeline:
    other = {"items": "bids", "bids": "items"}[stream]
    return with_row_step(make_pipeline(**({"lookup": other} | world)), stream, deduplicate=rule)


@pytest.mark.parametrize("size", BATCH_SIZES)
def test_the_first_row_of_a_value_passes(tmp_path: Path, size: int) -> None:
    """A row passes again if it is more than `within` newer than the last one that passed, also if it was
    dropped before. An older row is a duplicate, too."""
    pipeline = deduplicated(lateness=(9, 9), windows=(None, None))
    times = [0, 2, 1, 2.5, 0, 4.5, 4.6, 4]

    found = in_batches(pipeline, [*(item(0, time) for time in times), bid(0, 0)], size, tmp_path)

    assert told(found) == []
    assert joined(found) == [(0, 0), (3, 0), (6, 0)]


@pytest.mark.parametrize("size", BATCH_SIZES)
def test_a_value_is_known_while_a_row_may_be_its_duplicate(tmp_path: Path, size: int) -> None:
    """Progress has come to the end of that time, and then beyond it."""
    pipeline = deduplicated(lateness=(0, 0), windows=(None, None))
    records = [item(0, 0), item(1, 2), item(2, 2), item(0, 2), item(1, 2.1), item(2, 2.1), item(0, 2.1)]

    found = in_batches(pipeline, [*records, bid(0, 0)], size, tmp_path)

    assert joined(found) == [(0, 0), (4, 0)]


@pytest.mark.parametrize("size", BATCH_SIZES)
def test_a_duplicate_keeps_its_promises(tmp_path: Path, size: int) -> None:
    """It moves progress, and a closing rule is asked of it."""
    rule = {"closes": {"on": "item_id", "when": "seller_id = 4"}}
    pipeline = deduplicated(
        {"by": ["item_id"]},
        punctuated=(False, True),
        windows=(None, None),
        declared=(rule, {}),
        lateness=(1, 1),
    )
    records = [
        item(0, 0),
        item(0, 9),
        item(2, 1),
        item(0, 9, seller=4),
        item(0, 9),
        bid(0, 0),
        close("bids", 0),
    ]

    found = in_batches(pipeline, records, size, tmp_path)

    assert told(found) == [("items", 2, "late", None), ("items", 4, "closed", 3)]
    assert joined(found) == [(0, 0)]
    assert [row["item_id"] for row in found["groups"]] == [0]


@pytest.mark.parametrize("size", BATCH_SIZES)
def test_a_violation_is_not_the_first_row(tmp_path: Path, size: int) -> None:
    """The row behind it passes; a duplicate that breaks a promise is a violation itself."""
    pipeline = deduplicated({"by": ["item_id"]}, lateness=(1, 1), windows=(None, None))
    records = [item(2, 9), item(0, 1), item(0, 8), item(0, 2), item(0, 9), bid(0, 0)]

    found = in_batches(pipeline, records, size, tmp_path)

    assert told(found) == [("items", 1, "late", None), ("items", 3, "late", None)]
    assert joined(found) == [(2, 0)]


@pytest.mark.parametrize("size", BATCH_SIZES)
@pytest.mark.parametrize("miss", ["drop", "nulls", "dead_letter"])
def test_a_duplicate_is_dropped_whatever_its_lookup_finds(tmp_path: Path, miss: str, size: int) -> None:
    """The first row counts even without a match."""
    pipeline = deduplicated({"by": ["item_id"]}, "bids", lookup="bids", looking={"miss": miss})
    records = [
        bid(0, 0, seller=9),
        bid(0, 0),
        bid(0, 0, seller=9),
        bid(2, 0),
        bid(2, 0),
        item(0, 0),
        item(2, 0),
    ]

    found = in_batches(pipeline, records, size, tmp_path)

    assert [row["offset"] for row in found["dead_letters"]] == ([0] if miss == "dead_letter" else [])
    assert joined(found) == ([(0, 0)] if miss == "nulls" else []) + [(1, 3)]


@pytest.mark.parametrize("size", BATCH_SIZES)
def test_values_with_null(tmp_path: Path, size: int) -> None:
    """Null is a value of its own; rows of several partitions are no duplicates of each other."""
    pipeline = deduplicated({"by": ["seller_id", "item_id"]}, nullable=(["seller_id"], []))
    keyless = raw("items", json.dumps(json.loads(item(0, 0).value or b"") | {"seller_id": None}).encode())
    records = [
        item(0, 0),
        keyless,
        item(0, 0, seller=2),
        keyless,
        item(0, 0),
        item(0, 0, partition=1),
        bid(0, 0),
    ]

    found = in_batches(pipeline, records, size, tmp_path)

    assert sorted((row["items_kafka_partition"], row["items_kafka_offset"]) for row in found["results"]) == [
        *((0, 0), (0, 1), (0, 2), (1, 0))
    ]


@pytest.mark.parametrize("size", BATCH_SIZES)
def test_the_event_time_may_be_of_a_value(tmp_path: Path, size: int) -> None:
    """Only rows of the same time are duplicates if the event time is among the columns."""
    pipeline = deduplicated({"by": ["listed_at", "item_id"]}, lateness=(9, 9), windows=(None, None))

    found = in_batches(pipeline, [item(0, 1), item(0, 2), item(0, 1), bid(0, 1)], size, tmp_path)

    assert joined(found) == [(0, 0), (1, 0)]


@pytest.mark.parametrize("within", ["1s", None])
def test_state_of_duplicates_is_freed(tmp_path: Path, within: str | None) -> None:
    """Time frees it, or the punctuation of a key. Duplicates are counted by step."""
    pipeline = deduplicated({"by": ["item_id", "seller_id"], "within": within}, lateness=(0, 0))
    tasks = BucketTasks(pipeline, sellers_of(pipeline), {"all.items": 1, "all.bids": 1}, tmp_path)

    def told(name: str) -> int:
        return sum(
            int(value)
            for report in tasks.reports
            for key, value in report.get("samples", {}).items()
            if key.startswith(name)
        )

    first = [item(0, 0, partition=0), item(0, 0, 2, partition=0), item(2, 0, partition=0)]
    again = [item(2, 0, partition=0)] * 2
    located = locate([*first, *again, item(4, 9, partition=0), close("items", 0, 0), close("items", 2, 0)])
    tasks.batch(located[:5])
    assert told("state_rows{operator=deduplicate,stream=items}") == 3
    assert told("filtered_rows_total{step=first,stream=items}") == 2
    tasks.batch(located[5:6])
    assert told("state_rows{operator=deduplicate,stream=items}") == (1 if within else 4)
    tasks.batch(located[6:])
    assert told("state_rows{operator=deduplicate,stream=items}") == 1
