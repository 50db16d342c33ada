"""What the tasks of a batch tell of it beside its rows."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

import pytest

from endmark.latency import latency_samples
from endmark.metrics import add, parse
from endmark.pipeline import Pipeline
from support.bucket_tasks import BucketTasks, Located
from support.shops import CARDS, DOCUMENT, Shops, changed, offer, over, sales, seconds
from support.verify_world import STAMPED

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
        measured = ["parse", "pack", "lookup", "unpack", "probe", "purge", "aggregate", "store"]
        assert all(spent[phase] > 0 for phase in measured), spent
        assert spent.total() <= passed


def test_every_bucket_says_what_holds_time_back(tmp_path: Path) -> None:
    """Each partition without a row, how far the others are behind, and how far time has come with all."""
    tasks = BucketTasks(Pipeline.model_validate(DOCUMENT), CARDS, 2, tmp_path)
    north = offer("north", 1, "1.00")

    def told(*records: tuple[int, int, int]) -> list[dict[str, float]]:
        tasks.batch(
            [
                ("offers", partition, at, json.dumps(north | {"at": seconds(time)}).encode(), STAMPED)
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


def test_each_record_of_a_stream_counts_once_by_its_timestamp(tmp_path: Path) -> None:
    """Rows, punctuations and dead letters alike, but no control record."""
    tasks = BucketTasks(Pipeline.model_validate(DOCUMENT), CARDS, 2, tmp_path)
    values = [offer("north", 1, "1.00"), over("north", 1), "not a record"]
    sent = [("offers", at % 2, at, json.dumps(value).encode(), STAMPED) for at, value in enumerate(values)]
    tasks.batch([*sent, ("shops-control", 0, 0, b"{}", STAMPED)])

    samples = latency_samples((report.get("times", {}) for report in tasks.reports), STAMPED / 1000 + 2.5e8)

    assert {key: value for key, value in samples.items() if "up_to" in key} == {
        "latency_records_total{stream=offers,up_to=+Inf}": 3
    }
    assert samples["latency_seconds_total{stream=offers}"] / 3 == pytest.approx(2.5e8, rel=0.05)


@pytest.mark.parametrize(("kind", "waits_for"), [("left", "window"), ("right", "closing")])
def test_pending_punctuations_say_what_they_wait_for(tmp_path: Path, kind: str, waits_for: str) -> None:
    """Beside a preserved side only that side's closing completes them."""
    shops = Shops(tmp_path, {"rows": "count"}, type=kind, window="1h")

    shops.batch(offers=[offer("north", 1, "2.50"), over("north", 1)])

    waiting = add(report["samples"] for report in shops.reports)
    assert waiting[f"pending_punctuations{{stream=offers,waits_for={waits_for}}}"] == 1


def test_the_lookup_says_how_it_read(tmp_path: Path) -> None:
    """Reads by kind, what they cost by each strategy, and what the cache made needless."""
    document = changed(known={"cache": {"memory": "1MB"}})
    tasks = BucketTasks(Pipeline.model_validate(document), CARDS, 1, tmp_path)

    def told(offset: int, card: int) -> dict[str, float]:
        (sale,) = sales(("north", 1, "1.00", card))
        tasks.batch([("sales", 0, offset, json.dumps(sale).encode(), STAMPED)])
        summed = add(report["samples"] for report in tasks.reports)
        return {name.replace("relation=cards", ""): value for name, value in summed.items()}

    first, absent, again = told(0, 1), told(1, 7), told(2, 1)

    assert first["lookup_rows_total{}"] == again["lookup_rows_total{}"] == 1
    assert sum(first[f"lookup_reads_total{{by={by},}}"] for by in ("page", "list")) == 1
    assert sum(again[f"lookup_reads_total{{by={by},}}"] for by in ("page", "list")) == 0
    assert (first["lookup_cached_rows_total{}"], again["lookup_cached_rows_total{}"]) == (0, 1)
    assert (first["lookup_missed_rows_total{}"], absent["lookup_missed_rows_total{}"]) == (0, 1)
    assert first["lookup_expected_seconds{,strategy=hybrid}"] > 0
    ages = [report["greatest"] for report in tasks.reports if "greatest" in report]
    assert len(ages) == 2  # of both buckets, which share a cache
    assert all(age["lookup_cache_age_seconds{relation=cards}"] > 0 for age in ages)


def test_rows_that_wait_are_counted(tmp_path: Path) -> None:
    """In a full batch that has no time to read; the pause after it lets them in."""
    document = changed(known={"time_per_batch": "0s"})
    tasks = BucketTasks(Pipeline.model_validate(document), CARDS, 1, tmp_path, full_batch=1)

    def waiting(*cards: int) -> tuple[float, float]:
        come = sales(*(("north", 1, "1.00", card) for card in cards))
        written = zip(cards, (json.dumps(one).encode() for one in come), strict=True)
        records: list[Located] = [("sales", 0, at, value, STAMPED) for at, value in written]
        tasks.batch(records)
        summed = add(report["samples"] for report in tasks.reports)
        return summed["lookup_pending_rows{relation=cards}"], summed["state_rows{operator=join,stream=sales}"]

    assert waiting(0) == (0, 0)  # the first batch has none before it that says what full is
    assert waiting(1) == (1, 0)
    assert waiting(2) == (2, 0)
    assert waiting() == (0, 2)


def test_the_ledger_counts_promises_and_what_broke_them_by_partition(tmp_path: Path) -> None:
    """Rows that are late within a batch are known before the buckets, those that are closed in them."""
    streams = DOCUMENT["streams"] | {
        "sales": DOCUMENT["streams"]["sales"] | {"closes": {"on": ["shop", "day"], "when": "card = 9"}}
    }
    tasks = BucketTasks(Pipeline.model_validate(DOCUMENT | {"streams": streams}), CARDS, 2, tmp_path)
    [last] = sales(("north", 1, "1.00", 9))
    north = offer("north", 1, "1.00")
    records = [
        ("offers", 0, [north | {"at": seconds(50)}, offer("south", 2, "1.00") | {"at": seconds(0)}]),
        ("offers", 1, [over("north", 1), over("south", 1), north | {"at": seconds(50)}]),
        ("sales", 1, [last | {"at": seconds(50)}, last | {"at": seconds(50)}]),
    ]
    tasks.batch(
        [
            (topic, partition, at, json.dumps(record).encode(), STAMPED)
            for topic, partition, found in records
            for at, record in enumerate(found)
        ]
    )
    summed = add(report["samples"] for report in tasks.reports)

    ledger = {key: value for key, value in summed.items() if key.startswith("partition_") and value}
    assert ledger == {
        "partition_violations_total{partition=0,stream=offers}": 1,
        "partition_punctuations_total{partition=1,stream=offers}": 2,
        "partition_violations_total{partition=1,stream=offers}": 1,
        "partition_punctuations_total{partition=1,stream=sales}": 2,
        "partition_violations_total{partition=1,stream=sales}": 1,
    }
