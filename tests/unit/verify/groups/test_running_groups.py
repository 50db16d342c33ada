"""What `verify` finds of running groups: the last row of each is recomputed, those before lead up to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from endmark.pipeline import Pipeline
from endmark.verify.compare.tables import check_conservation, compare_tables
from support.bucket_tasks import BucketTasks, total
from support.verify_recompute import recomputed, sellers_of, tables_of
from support.verify_world import PARTITIONS, bid, close, item, locate, make_pipeline

RECORDS = [
    *(item(key, 0) for key in (0, 1)),
    *(
        bid(key, at, seller, price=price)
        for at, seller, price in ((1, 1, 5.0), (2, 2, 9.0))
        for key in (0, 1)
    ),
    bid(0, 2, 1, price=1.0),
    *(close(stream, 0) for stream in ("items", "bids")),
]
MEASURES = {"bids": "count", "best": {"max": "bids.price"}, "least": {"min": "bids.price"}}
Rows = list[dict[str, Any]]


@pytest.fixture
def pipeline() -> Pipeline:
    return make_pipeline(running=True, measures=MEASURES)


@pytest.fixture
def found(pipeline: Pipeline, tmp_path: Path) -> dict[str, Rows]:
    tasks = BucketTasks(pipeline, sellers_of(pipeline), PARTITIONS, tmp_path)
    located = locate(RECORDS)
    return total(tasks.batch(located[at : at + 2]) for at in range(0, len(located), 2))


def group(
    key: int, bids: int, best: float, least: float, batch: int, *, final: bool = False
) -> dict[str, Any]:
    return {"item_id": key, "bids": bids, "best": best, "least": least, "final": final, "batch": batch}


def told(pipeline: Pipeline, found: dict[str, Rows]) -> tuple[list[str], tuple[int, int], list[str]]:
    """Tables that differ, how that of running groups does (missing, unexpected), and broken rules."""
    with recomputed(pipeline, RECORDS, found=found) as session:
        compared = compare_tables(session, pipeline, dict.fromkeys(tables_of(pipeline)))
        rules = [breach.rule for breach in check_conservation(session, pipeline)]
    [running] = (table for table in compared if table.table == "running")
    differing = [table.table for table in compared if table.differs]
    return differing, (running.missing, running.unexpected), rules


def test_each_batch_tells_what_it_changed(pipeline: Pipeline, found: dict[str, Rows]) -> None:
    """Of an open group its values so far, and of one it closes the last ones."""
    assert sorted(found["running"], key=lambda row: (row["item_id"], row["batch"])) == [
        group(0, 1, 5.0, 5.0, 1),
        group(0, 2, 9.0, 5.0, 2),
        group(0, 3, 9.0, 1.0, 3),
        group(0, 3, 9.0, 1.0, 4, final=True),
        group(1, 1, 5.0, 5.0, 1),
        group(1, 2, 9.0, 5.0, 2),
    ]
    assert told(pipeline, found) == ([], (0, 0), [])


def last(rows: Rows, key: int) -> dict[str, Any]:
    return max((row for row in rows if row["item_id"] == key), key=lambda row: row["batch"])


def lose(rows: Rows) -> None:
    rows.remove(last(rows, 1))


def double(rows: Rows) -> None:
    rows.append(last(rows, 1))


def leave_open(rows: Rows) -> None:
    last(rows, 0)["final"] = False


def end_early(rows: Rows) -> None:
    last(rows, 1)["final"] = True


def go_on(rows: Rows) -> None:
    rows.append(last(rows, 0) | {"batch": 9})


def repeat_an_earlier_one(rows: Rows) -> None:
    rows.append(next(row for row in rows if row["batch"] == 2 and row["item_id"] == 0))


def fall(rows: Rows) -> None:
    next(row for row in rows if row["batch"] == 1 and row["item_id"] == 0)["bids"] = 7


def forget(rows: Rows) -> None:
    next(row for row in rows if row["batch"] == 2 and row["item_id"] == 0)["best"] = None


TWICE, WENT_ON = (
    "a running group that has two rows of one batch",
    "a running group that went on after it was final",
)
BACK = "a running group whose {} went back"


@pytest.mark.parametrize(
    ("harm", "differs", "rules"),
    [
        (lose, (1, 1), []),
        (double, (0, 1), [TWICE]),
        (leave_open, (1, 1), []),
        (end_early, (1, 1), []),
        (go_on, (0, 0), [WENT_ON]),
        (repeat_an_earlier_one, (0, 0), [TWICE]),
        (fall, (0, 0), [BACK.format("count bids")]),
        (forget, (0, 0), [BACK.format("max best")]),
    ],
)
def test_what_is_wrong_is_found(
    pipeline: Pipeline,
    found: dict[str, Rows],
    harm: Callable[[Rows], None],
    differs: tuple[int, int],
    rules: list[str],
) -> None:
    harm(found["running:by_key"])
    assert told(pipeline, found) == (["running"] if differs != (0, 0) else [], differs, rules)


@pytest.fixture
def upserted(pipeline: Pipeline) -> Pipeline:
    upserted = pipeline.tables["running"].model_copy(update={"mode": "upsert"})
    return pipeline.model_copy(update={"tables": pipeline.tables | {"running": upserted}})


@pytest.fixture
def newest(found: dict[str, Rows]) -> dict[str, Rows]:
    return found | {"running:by_key": [last(found["running"], key) for key in (0, 1)]}


def stay_behind(rows: Rows) -> None:
    last(rows, 1)["bids"] -= 1


@pytest.mark.parametrize(
    ("harm", "differs", "rules"),
    [
        (lambda _: None, (0, 0), []),
        (lose, (1, 0), []),
        (double, (0, 1), ["a running group that has two rows"]),
        (go_on, (0, 1), ["a running group that has two rows"]),
        (stay_behind, (1, 1), []),
        (leave_open, (1, 1), []),
    ],
)
def test_an_upserted_group_has_its_newest_row_alone(
    upserted: Pipeline,
    newest: dict[str, Rows],
    harm: Callable[[Rows], None],
    differs: tuple[int, int],
    rules: list[str],
) -> None:
    harm(newest["running:by_key"])
    assert told(upserted, newest) == (["running"] if differs != (0, 0) else [], differs, rules)


def test_an_older_row_beside_the_newest_is_found(upserted: Pipeline, found: dict[str, Rows]) -> None:
    """As an append would leave them."""
    _, (missing, unexpected), rules = told(upserted, found)
    assert (missing, unexpected, rules) == (0, 4, ["a running group that has two rows"])
