"""Conditions that fail on valid rows: they are not true of them, the job goes on, and it is told."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from endmark.expressions.condition_failures import lines
from endmark.metrics import Samples, add
from endmark.pipeline import Pipeline
from endmark.types import JoinType
from support.bucket_tasks import BucketTasks, total
from support.verify_recompute import recomputed, require_within, sellers_of
from support.verify_world import Record, bid, close, item, locate, make_pipeline

GREATEST = 2**63 - 1
# Some of it is true of all pairs; it fails on items of seller 2 and above.
WHERE = f"bids_price > 0 OR items_seller_id + {GREATEST - 1} > 0"


def ran(
    pipeline: Pipeline, records: list[Record], size: int, directory: Path
) -> tuple[dict[str, list[dict[str, Any]]], Samples, list[dict[str, Any]]]:
    """Tables, totals and what was told of failures, after batches of so many records."""
    tasks = BucketTasks(pipeline, sellers_of(pipeline), 2, directory)
    located = locate(records)
    tables, told = [], []
    for at in range(0, len(located), size):
        tables.append(tasks.batch(located[at : at + size]))
        told += tasks.reports
    failures = [failure for report in told for failure in report.get("failures", [])]
    return total(tables), add(report["samples"] for report in told), failures


@pytest.mark.parametrize("size", [1, 3, 99])
@pytest.mark.parametrize("kind", JoinType)
def test_a_pair_on_which_the_condition_fails_is_none(kind: JoinType, size: int, tmp_path: Path) -> None:
    """However it comes, in every type of join: rows without another partner are alone."""
    pipeline = make_pipeline(kind=kind, where=WHERE)
    records = [item(1, 0), item(1, 0, seller=2), item(2, 0, seller=3), bid(1, 1), bid(2, 1), bid(1, 2)]
    records += [close(stream, key) for stream in ("items", "bids") for key in (1, 2)]

    found, totals, failures = ran(pipeline, records, size, tmp_path)

    with recomputed(pipeline, records, found=found) as session:
        require_within(session, pipeline)
    sellers = [row["items_seller_id"] for row in found["results"]]
    assert sellers.count(1) == (1 if kind is JoinType.SEMI else 2)
    alone = {JoinType.LEFT: 2, JoinType.RIGHT: 1, JoinType.FULL: 3}
    assert len(sellers) - sellers.count(1) == alone.get(kind, 0)
    assert totals["join_failed_pairs_total"] == 3
    for failure in failures:
        assert failure["field"] == "steps.matched.where"
        assert failure["why"].startswith("Out of Range Error: Overflow in addition")
        assert {at["stream"] for at in failure["at"]} == {"items", "bids"}
    assert sum(failure["count"] for failure in failures) == 3
    [line] = lines(failures, 7)
    assert re.fullmatch(
        r"batch 7: join\.where failed 3 times and does not hold there, such as on "
        r"items 1@[01] with bids 1@\d: Out of Range Error: Overflow in addition of .*|.* items 0@0 with .*",
        line,
    )


def test_a_row_on_which_its_closing_rule_fails_closes_nothing(tmp_path: Path) -> None:
    """It is processed like any other."""
    rule = {"closes": {"on": ["item_id"], "when": f"seller_id + {GREATEST - 1} > 0"}}
    pipeline = make_pipeline(kind=JoinType.RIGHT, declared=(rule, {}), punctuated=(False, True))
    records = [item(1, 0, seller=1), item(3, 0, seller=2), bid(1, 1), bid(3, 1), bid(1, 2), bid(3, 2)]

    found, totals, failures = ran(pipeline, records, 99, tmp_path)

    with recomputed(pipeline, records, found=found) as session:
        require_within(session, pipeline)
    assert len(found["results"]) == 4
    assert totals["closing_rows_total{stream=items}"] == 1
    assert totals["closing_failed_rows_total{stream=items}"] == 1
    [failure] = failures
    assert (failure["field"], failure["count"]) == ("streams.items.closes.when", 1)
    assert failure["at"] == [{"stream": "items", "partition": 1, "offset": 1}]
