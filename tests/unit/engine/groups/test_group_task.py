"""The second stage of a query: groups by another key than the join's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from endmark.engine import channels
from endmark.engine.channels import Buckets
from endmark.engine.groups.stage import GroupStage
from endmark.engine.groups.task import GroupTask
from endmark.pipeline import Pipeline
from endmark.state.store import MemoryBlobs, SegmentStore
from endmark.types import JoinType
from support.bucket_tasks import BucketTasks, Tables
from support.verify_keys import COMPOSITE
from support.verify_recompute import sellers_of
from support.verify_world import PARTITIONS, Record, bid, close, item, locate, make_pipeline, promise

BOTH = range(PARTITIONS)


def by(reference: str, **fields: Any) -> Pipeline:
    """Auctions without windows, whose results are grouped by a column."""
    pipeline = make_pipeline(
        aggregated=False, wider=("seller_id",), windows=(None, None), looking={"miss": "nulls"}, **fields
    )
    document: dict[str, Any] = pipeline.model_dump()
    document["steps"]["by_other"] = {
        "from": "matched",
        "aggregate": {"by": reference, "measures": {"rows": "count"}},
    }
    document["tables"] |= {"groups": {"from": "by_other"}, "running": {"from": "by_other", "mode": "changes"}}
    return Pipeline.model_validate(document)


def stage_of(pipeline: Pipeline, reporters: int = 2) -> GroupStage:
    stage = GroupStage.of(pipeline, reporters, Buckets((3, 5)))
    assert stage is not None
    return stage


def in_batches(pipeline: Pipeline, batches: list[list[Record]], directory: Path) -> list[Tables]:
    """The batches, in three buckets and then two."""
    tasks = BucketTasks(pipeline, sellers_of(pipeline), PARTITIONS, directory, buckets=3, group_buckets=2)
    located = locate([record for batch in batches for record in batch])
    ends = [sum(map(len, batches[: number + 1])) for number in range(len(batches))]
    return [tasks.batch(located[end - len(batch) : end]) for batch, end in zip(batches, ends, strict=True)]


def told(found: Tables) -> list[tuple[Any, int]]:
    return [(*row.values(),) for row in found["groups"]]


def over(patterns: dict[str, Any], stream: str = "items") -> list[Record]:
    """A promise of all partitions."""
    return [promise(stream, patterns, partition) for partition in BOTH]


def test_a_group_waits_for_all_partitions_and_buckets(tmp_path: Path) -> None:
    """Live rows in any bucket hold back the promise, and the group is written once they are gone."""
    items = [item(key, 1, seller=1) for key in range(4)]
    one, other = over({"seller_id": {"equals": 1}})
    closed = [[close("bids", key) for key in keys] for keys in ((0, 1, 2), (3,))]

    found = in_batches(
        by("items.seller_id"), [[*items, bid(0, 2), bid(3, 2)], [one], [other], *closed], tmp_path
    )

    assert [told(each) for each in found] == [[], [], [], [], [(1, 2)]]
    assert [row["rows"] for row in found[0]["running"]] == [2]
    assert [(row["rows"], row["final"]) for row in found[-1]["running"]] == [(2, True)]


def test_null_is_a_group_that_only_the_end_closes(tmp_path: Path) -> None:
    """Nulls are one group of all buckets, as of rows without a match in R, and no pattern matches it."""
    rows = [item(0, 1), item(1, 1), bid(0, 2, seller=9), bid(1, 2, seller=9), bid(1, 3, seller=1)]
    some = over({"seller_id": {"between": {"to": 100}}}, "bids")
    end = over({"seller_id": {"anything": True}})

    found = in_batches(by("sellers.name"), [rows, [*some, close("bids", 0), close("bids", 1)], end], tmp_path)

    assert [told(each) for each in found[:2]] == [[], []]
    assert sorted(told(found[2]), key=repr) == [("Ann", 1), (None, 2)]


@pytest.mark.parametrize(
    ("kind", "closes"),
    [
        (JoinType.INNER, {"items_lot": {"equals": "a"}, "bids_lot": {"equals": "a"}}),
        (JoinType.LEFT, {"items_lot": {"equals": "a"}}),
        (JoinType.RIGHT, {"bids_lot": {"equals": "a"}}),
        (JoinType.FULL, {}),
    ],
)
def test_a_column_of_the_join_key_is_that_of_streams_always_there(
    kind: JoinType, closes: dict[str, Any]
) -> None:
    """In a full join, no stream is."""
    [groups] = stage_of(by("lot", keys=COMPOSITE, kind=kind)).groups

    found = {
        column: groups.closing(json.dumps({column: {"equals": "a"}})) for column in ("items_lot", "bids_lot")
    }

    assert {column for column, punctuation in found.items() if punctuation is not None} == set(closes)


def test_only_patterns_on_the_group_key_alone_close_groups() -> None:
    [groups] = stage_of(by("items.seller_id")).groups

    def closes(patterns: dict[str, Any]) -> bool:
        return groups.closing(json.dumps(patterns)) is not None

    assert closes({"items_seller_id": {"equals": 1}})
    assert closes({"items_item_id": {"between": {}}})  # the end of items
    assert not closes({"bids_seller_id": {"equals": 1}})
    assert not closes({"items_seller_id": {"equals": 1}, "items_item_id": {"equals": 1}})
    assert not closes({"items_item_id": {"between": {"to": 9}}})


@pytest.mark.parametrize("reports", [0, 1, 3])
def test_a_missing_report_is_no_statement(tmp_path: Path, reports: int) -> None:
    """A bucket of the first stage that says nothing might still have a row that the promise matches."""
    task = GroupTask(stage_of(by("items.seller_id")), SegmentStore(MemoryBlobs(), tmp_path), None)
    report = json.dumps({"released": {'{"items_seller_id": {"equals": 1}}': "closed"}, "waiting": []})

    with pytest.raises(AssertionError, match=f"{reports} of 2 buckets"):
        list(task.run([(channels.REPORT, report.encode())] * reports))


def test_a_pipeline_without_other_groups_has_one_stage() -> None:
    assert GroupStage.of(make_pipeline(), 2, Buckets((3, 5))) is None
    assert GroupStage.of(make_pipeline(aggregated=False), 2, Buckets((3, 5))) is None
