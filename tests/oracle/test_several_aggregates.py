"""Several aggregates of the same rows, and of the same final groups.

The random graphs have them, too (`test_graphs`).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from endmark.pipeline import Pipeline
from endmark.pipeline.boundedness import states
from endmark.pipeline.explanation import explained
from support.bucket_tasks import BucketTasks
from support.graph_runs import require_same
from support.verify_recompute import sellers_of
from support.verify_steps import TICK, with_steps
from support.verify_world import (
    TWO_EACH,
    Record,
    bid,
    item,
    locate,
    make_pipeline,
    promise,
)

COUNT = {"rows": "count"}
GROUPS = {
    "by_item": {"from": "matched", "aggregate": {"by": "item_id", "measures": COUNT}},
    "by_seller": {"from": "matched", "aggregate": {"by": "items.seller_id", "measures": COUNT}},
    "latest": {
        "from": "matched",
        "aggregate": {"by": "item_id", "measures": {"bidder": {"max": "bids.seller_id"}}},
    },
    "by_bidder": {"from": "matched", "aggregate": {"by": "bids.seller_id", "measures": COUNT}},
    "item_sizes": {"from": "by_item", "aggregate": {"by": "rows", "measures": {"items": "count"}}},
    "seller_sizes": {"from": "by_seller", "aggregate": {"by": "rows", "measures": {"sellers": "count"}}},
    "bidders": {"from": "latest", "aggregate": {"by": "bidder", "measures": {"items": "count"}}},
}
FINAL = ("by_item", "by_seller", "latest", "by_bidder")
SO_FAR = ("item_sizes", "seller_sizes", "bidders")


def several() -> Pipeline:
    looking = {"miss": "nulls"}  # no relation has the bidders
    plain = make_pipeline(windows=(None, None), aggregated=False, wider=("seller_id",), looking=looking)
    document: dict[str, Any] = plain.model_dump(by_alias=True)
    document["steps"] |= GROUPS
    document["tables"] |= {name: {} for name in FINAL} | {name: {"mode": "upsert"} for name in SO_FAR}
    return Pipeline.model_validate(document)


def records() -> list[Record]:
    """Items 0 and 1 of seller 1, and item 2 of seller 2. Bidder 6 bids on item 0 alone."""
    found = [item(key, 0, seller=1 + key // 2) for key in range(3)]
    found += [bid(key, 1, seller=7 + place if key else 6) for key in range(3) for place in range(key + 1)]
    found += [promise("items", {"seller_id": {"equals": 1}}, home) for home in range(2)]
    found += [promise("bids", {"seller_id": {"equals": 6}}, home) for home in range(2)]
    ends = {"item_id": {"between": {"to": 1}}}
    found += [promise(stream, ends, home) for home in range(2) for stream in ("items", "bids")]
    return found


@pytest.mark.parametrize(("buckets", "group_buckets"), [(1, 1), (2, 3)])
@pytest.mark.parametrize("cuts", [(), (4,), (2, 5, 9, 10, 11)])
def test_several_aggregates(cuts: tuple[int, ...], buckets: int, group_buckets: int) -> None:
    """Each has all rows, whichever key it has, and is final by what closes its own groups."""
    pipeline = several()

    found = require_same(pipeline, records(), cuts, TWO_EACH, buckets=buckets, group_buckets=group_buckets)

    def rows(role: str) -> list[tuple[Any, ...]]:
        return sorted((*row.values(),)[:2] for row in found[role])

    assert [groups.step for groups in pipeline.regrouped] == ["by_seller", "by_bidder"]
    assert rows("groups:by_item") == [(0, 1), (1, 2)]
    assert rows("groups:latest") == [(0, 6), (1, 8)]
    assert rows("groups:by_seller") == [(1, 3)]
    assert rows("groups:by_bidder") == [(6, 1)]
    assert rows("running:item_sizes") == [(1, 1), (2, 1)]
    assert rows("running:seller_sizes") == [(3, 1)]
    assert rows("running:bidders") == [(6, 1), (8, 1)]


def test_a_stage_has_all_aggregates_by_other_keys() -> None:
    """The rows of the join go through one shuffle to all of them, and the final groups through one more."""
    found = explained(several())

    assert [[step.step for step in stage.steps] for stage in found.stages] == [
        ["known", "matched", "by_item", "latest"],
        ["by_seller", "by_bidder"],
        ["item_sizes", "seller_sizes", "bidders"],
    ]
    assert [stage.inputs for stage in found.stages[1:]] == [
        ("matched",),
        ("by_item", "by_seller", "latest"),
    ]


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        (
            {"again": {"from": "bids", "aggregate": {"by": "item_id", "measures": COUNT}}},
            "steps.again: 'bids' goes to step known already, and a stream or step feeds one step, or",
        ),
        (
            {"few": {"from": "matched", "where": "bids_price < 2"}},
            "steps.few: 'matched' goes to step by_item already, and a stream or step feeds one step, or",
        ),
        (
            {"few": {"from": "matched", "aggregate": {"by": "bids.seller_id", "measures": COUNT}}},
            "steps.few: no table or topic has its groups; add tables.few: {}, or leave the step out",
        ),
    ],
)
def test_other_steps_take_rows_that_no_step_takes(steps: dict[str, Any], says: str) -> None:
    document: dict[str, Any] = several().model_dump(by_alias=True)

    with pytest.raises(ValueError, match=re.escape(says)):
        Pipeline.model_validate(document | {"steps": document["steps"] | steps})


def test_samples_tell_the_aggregates_apart(tmp_path: Path) -> None:
    tasks = BucketTasks(several(), sellers_of(several()), TWO_EACH, tmp_path)
    tasks.batch(locate(records()))

    samples = {key: value for report in tasks.reports for key, value in report["samples"].items() if value}
    closed = {key: value for key, value in samples.items() if key.startswith("groups_closed_total")}
    assert closed.keys() == {f"groups_closed_total{{step={name}}}" for name in FINAL}
    kept = {state.input for state in states(several()) if state.holds == "groups"}
    assert kept == {*GROUPS}
    assert samples["state_rows{operator=aggregate,stream=by_bidder}"] > 0


def test_groups_by_the_join_key_do_not_end_by_time() -> None:
    """A derived time of the join key makes groups by it alone final, and leaves the others open."""
    plain = make_pipeline(punctuated=(False, False), aggregated=False)
    steps = {
        f"timed_{name}": {"from": name, "derive": {"tick": TICK.replace("$time", stream.event_time.column)}}
        for name, stream in plain.streams.items()
    }
    document: dict[str, Any] = with_steps(plain, steps).model_dump(by_alias=True)
    document["steps"]["matched"]["on"] = ["item_id", "tick"]
    document["steps"] |= {
        "by_time": {"from": "matched", "aggregate": {"by": "tick", "measures": COUNT}},
        "by_key": {"from": "matched", "aggregate": {"by": ["item_id", "tick"], "measures": COUNT}},
    }
    document["tables"] |= {"by_time": {}, "by_key": {"mode": "changes"}}
    pipeline = Pipeline.model_validate(document)
    late = [bid(1, 60, partition=home) for home in range(2)] + [
        item(2, 60, partition=home) for home in range(2)
    ]

    found = require_same(pipeline, [item(0, 0), bid(0, 0), *late], [2], TWO_EACH)

    assert [row["rows"] for row in found["groups:by_time"]] == [1]
    assert [row["final"] for row in found["running:by_key"]] == [False]
