"""Closing rules in a pipeline file: what they bound, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from endmark.engine.streams import closing, stream_plans
from endmark.errors import ConfigError
from endmark.metrics import add
from endmark.pipeline import Pipeline
from endmark.pipeline.boundedness import require_bounded, states
from support.bucket_tasks import BucketTasks
from support.verify_keys import COMPOSITE
from support.verify_recompute import sellers_of
from support.verify_world import item, locate, make_pipeline

PARTITIONS = {"all.items": 1, "all.bids": 1}


def ruled(on: list[str], when: str = "seller_id = 3", **other: Any) -> Pipeline:
    """Items have a closing rule and no punctuations, and rows have no windows."""
    rule = {"closes": {"on": on, "when": when}}
    punctuated = other.pop("punctuated", (False, True))
    return make_pipeline(windows=(None, None), punctuated=punctuated, declared=(rule, {}), **other)


def test_a_rule_on_the_key_bounds_state() -> None:
    """And is named, like punctuations."""
    pipeline = ruled(["lot", "item_id"], keys=COMPOSITE)
    require_bounded(pipeline)

    [rows] = [str(state) for state in states(pipeline) if state.name == "bids rows"]
    [keys] = [str(state) for state in states(pipeline) if state.name == "items closed keys"]
    assert rows == "bids rows: bounded by items' closing rule on item_id, lot"
    assert keys.startswith("items closed keys: unbounded, remembered until a pattern holds them")


@pytest.mark.parametrize("on", [["seller_id"], ["item_id", "seller_id"]])
def test_a_wider_rule_bounds_nothing(on: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"bids rows: unbounded, since .* items has no punctuations"):
        require_bounded(ruled(on))


def test_a_rule_on_part_of_the_key_needs_the_rest() -> None:
    """Which punctuations may speak of."""
    with pytest.raises(ValueError, match=r"streams\.items\.punctuated_on: 'item_id' of the join key"):
        ruled(["lot"], keys=COMPOSITE)

    require_bounded(ruled(["lot"], keys=COMPOSITE, punctuated=(True, True)))


def test_rules_do_not_widen_what_punctuations_may_say() -> None:
    """The join hears of the columns of both."""
    plan = stream_plans(ruled(["seller_id"], punctuated=(True, True)), PARTITIONS)["items"]

    assert plan.punctuated_on == ("item_id",)
    assert plan.side.punctuated_on == ("items_item_id", "items_seller_id")


@pytest.mark.parametrize(
    ("when", "says"),
    [
        ("items_seller_id = 3", "no column 'items_seller_id'; there are item_id, seller_id, listed_at"),
        ("kafka_offset > 3", "no column 'kafka_offset'"),
        ("seller_id", "'seller_id' is of type BIGINT, but must be a condition"),
        ("listed_at < now()", "'now' is no function that depends on its arguments alone"),
    ],
)
def test_what_is_no_condition_of_a_row_is_refused(when: str, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        closing(ruled(["item_id"], when), "items")

    assert str(refused.value).startswith(f"streams.items.closes.when: {says}")


def test_rows_that_meet_it_are_counted(tmp_path: Path) -> None:
    """So that a rule that no row meets is seen."""
    pipeline = ruled(["item_id"])
    tasks = BucketTasks(pipeline, sellers_of(pipeline), 1, tmp_path)
    tasks.batch(locate([item(1, 1, 3), item(3, 2, 1), item(5, 0, 3)]))

    told = add(report["samples"] for report in tasks.reports if "samples" in report)
    assert told["closing_rows_total{stream=items}"] == 2
