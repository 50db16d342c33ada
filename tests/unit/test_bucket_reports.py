"""What the tasks of a batch tell of it beside its rows."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

import pytest

from endmark.metrics import add, parse
from endmark.pipeline import Pipeline
from support.bucket_tasks import BucketTasks
from support.shops import CARDS, DOCUMENT, Shops, offer, over, sales, seconds

MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


def test_every_batch_says_where_its_time_went(tmp_path: Path) -> None:
    """By phase, and no more in all than passed: every part here runs in this one process."""
    shops = Shops(tmp_path)
    for day in (1, 2):
        started = perf_counter()
        shops.batch(
            offers=[offer("north", day, "2.50"), over("north", day)],
            sales=[*sales(("north", day, "2.50", 1)), over("north", day)],
        )
        passed = perf_counter() - started

        spent: Counter[str] = Counter()
        for report in shops.reports:
            for key, value in report["samples"].items():
                name, labels = parse(key)
                if name == "profile_seconds_total":
                    spent[labels["phase"]] += value
        measured = ["parse", "pack", "lookup", "unpack", "probe", "purge", "aggregate", "emit", "store"]
        assert all(spent[phase] > 0 for phase in measured), spent
        assert spent.total() <= passed


def test_every_bucket_says_what_holds_time_back(tmp_path: Path) -> None:
    """Each partition without a row, how far the others are behind, and how far time has come with all."""
    tasks = BucketTasks(Pipeline.model_validate(DOCUMENT), CARDS, 2, tmp_path)
    north = offer("north", 1, "1.00")

    def told(*records: tuple[int, int, int]) -> list[dict[str, float]]:
        tasks.batch(
            [
                ("offers", partition, at, json.dumps(north | {"at": seconds(time)}).encode(), 0)
                for partition, at, time in records
            ]
        )
        return [report["alike"] for report in tasks.reports if "alike" in report]

    first, second = "partition=0,stream=offers", "partition=1,stream=offers"
    silent_sales = {f"silent_partitions{{partition={partition},stream=sales}}": 1 for partition in (0, 1)}
    assert told((1, 0, 5)) == 2 * [
        {f"silent_partitions{{{first}}}": 1, f"partition_behind_seconds{{{second}}}": 0} | silent_sales
    ]
    assert told((0, 0, 45)) == 2 * [
        {
            f"partition_behind_seconds{{{first}}}": 0,
            f"partition_behind_seconds{{{second}}}": 40,
            "progress_event_time_seconds{stream=offers}": MIDNIGHT + 5,
            "progress_behind_seconds{stream=offers}": 40,
        }
        | silent_sales
    ]


@pytest.mark.parametrize(("kind", "waits_for"), [("left", "window"), ("right", "closing")])
def test_pending_punctuations_say_what_they_wait_for(tmp_path: Path, kind: str, waits_for: str) -> None:
    """Beside a preserved side only that side's closing completes them."""
    window = {"left": "1h", "right": "1h"}
    shops = Shops(tmp_path, {"rows": "count"}, type=kind, window=window)

    shops.batch(offers=[offer("north", 1, "2.50"), over("north", 1)])

    waiting = add(report["samples"] for report in shops.reports)
    assert waiting[f"pending_punctuations{{stream=offers,waits_for={waits_for}}}"] == 1
