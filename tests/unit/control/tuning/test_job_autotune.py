"""Autotune beside the tasks of a job: what it tunes, and that reads of a database lead it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa

from endmark.control.ops_database.database import OpsDatabase
from endmark.control.tuning.autotune import WHO
from endmark.control.tuning.job_autotune import Tuning, tuned_of
from endmark.control.tuning.knobs import filed, steps_of
from endmark.metrics import add, sample
from endmark.relation.contract import KeyRange
from endmark.relation.sql import SqlRelation
from support.bucket_tasks import BucketTasks, Located
from support.verify_world import bid, make_pipeline

CONTROL = "small-control"


def relation(directory: Path, sellers: int, table: str = "sellers") -> str:
    """The URL of so many sellers in a database of their own."""
    url = f"sqlite:///{directory / 'relation.db'}"
    with sa.create_engine(url).begin() as connection:
        connection.execute(
            sa.text(f"CREATE TABLE {table} (seller_id INTEGER PRIMARY KEY, name TEXT, rating REAL)")
        )
        rows = [{"id": number, "name": f"seller {number}" * 4} for number in range(sellers)]
        connection.execute(sa.text(f"INSERT INTO {table} VALUES (:id, :name, 1.5)"), rows)  # noqa: S608
        if table != "sellers":
            connection.execute(sa.text(f"CREATE VIEW sellers AS SELECT * FROM {table}"))  # noqa: S608
    return url


class PricedRelation(SqlRelation):
    """A database whose reads have a price: a range or a list of keys costs 100 us, and a row of it 1 us.

    Measured seconds of 2,000 rows differed by more than the rows did, in one run of three.
    """

    seconds = 0.0

    def pages(self, ranges: list[KeyRange]) -> pa.RecordBatch:
        rows = super().pages(ranges)
        self.seconds += 100e-6 * len(ranges) + 1e-6 * rows.num_rows
        return rows

    def read_keys(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        rows = super().read_keys(keys)
        self.seconds += 100e-6 + 1e-6 * rows.num_rows
        return rows

    def take_seconds(self) -> float:
        """The price of all reads since the last call."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds


@pytest.fixture
def ops(tmp_path: Path) -> Iterator[OpsDatabase]:
    with closing(OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")) as database:
        yield database


class Job:
    """Tasks, the ops database and autotune, without Spark; control records are read by the batch after."""

    def __init__(
        self, ops: OpsDatabase, directory: Path, sellers: int, table: str = "sellers", **looking: Any
    ) -> None:
        url, self._sellers = relation(directory, sellers, table), sellers
        self.pipeline = make_pipeline(url, windows=(None, None), looking={"autotune": True, **looking})
        self._relation = PricedRelation(self.pipeline.relations["sellers"])
        self.tasks = BucketTasks(self.pipeline, self._relation, 1, directory)
        self._relation.take_seconds()  # of the reads that measure costs at the start
        self.ops = ops
        self.tuning = Tuning(self.pipeline, ops)
        self._random = random.Random(3)
        self._batches = 0
        self._sent = 0
        self._coming: list[Located] = []

    def run(self, batches: int, rows: int) -> None:
        """So many batches, with rows of sellers at random."""
        for _ in range(batches):
            records = [bid(0, 1, self._random.randrange(self._sellers)) for _ in range(rows)]
            first = self._batches * rows
            located: list[Located] = [
                (each.topic, 0, first + at, each.value, each.timestamp) for at, each in enumerate(records)
            ]
            self.tasks.batch([*located, *self._coming])
            self._coming = []
            self._done()

    def _done(self) -> None:
        samples = add(report["samples"] for report in self.tasks.reports)
        samples[sample("lookup_read_seconds_total", relation="sellers")] = self._relation.take_seconds()
        turns = [turn for report in self.tasks.reports for turn in report.get("turns", [])]
        self.ops.batches.record("small", self._batches, "run", samples, {})
        self.ops.turns.record("small", self._batches, turns, filed(steps_of(self.pipeline)))
        if (record := self.tuning.batch_done(self._batches, samples, turns)) is not None:
            self._coming.append((CONTROL, 0, self._sent, record, 0))
            self._sent += 1
        self._batches += 1


def test_pages_too_small_for_the_load_become_larger(ops: OpsDatabase, tmp_path: Path) -> None:
    """A quarter of the keys lies on half of the pages, apart; each turn is kept, with its reason."""
    job = Job(ops, tmp_path, 2_000, strategy="scan", page_rows=2)
    job.run(30, rows=500)
    turns = ops.turns.of("small")

    assert {turn["by"] for turn in turns} == {WHO}
    assert [(turn["before"], turn["value"]) for turn in turns[:2]] == [(2, 4), (4, 8)]
    assert all(turn["why"].startswith("a row costs ") for turn in turns)


def test_a_move_that_makes_reads_dearer_is_undone(ops: OpsDatabase, tmp_path: Path) -> None:
    """Few rows, each on a page of its own: twice the page is nearly twice the price."""
    job = Job(ops, tmp_path, 20_000, strategy="scan", page_rows=2000)
    job.run(20, rows=2)
    first, undone, *_ = ops.turns.of("small")

    assert [(turn["before"], turn["value"]) for turn in (first, undone)] == [(2000, 4000), (4000, 2000)]
    assert "more, but it has to save 10%" in undone["why"]


def test_a_job_that_starts_again_goes_on_with_a_trial(ops: OpsDatabase, tmp_path: Path) -> None:
    job = Job(ops, tmp_path, 20_000, strategy="scan", page_rows=2000)
    while not ops.turns.of("small"):
        job.run(1, rows=2)
    job.tuning = Tuning(job.pipeline, ops)
    job.tuning.batch_done(ops.batches.latest("small").batch_id, {}, ops.turns.of("small"))  # type: ignore[union-attr]
    job.run(9, rows=2)

    assert [turn["value"] for turn in ops.turns.of("small")][:2] == [4000, 2000]


def test_pages_are_not_tuned_if_none_can_be_read(ops: OpsDatabase, tmp_path: Path) -> None:
    """A view has no pages, so a turn of their size would change nothing but by chance."""
    job = Job(ops, tmp_path, 200, table="all_sellers")
    job.run(12, rows=50)

    assert ops.turns.of("small") == []
    assert tuned_of(make_pipeline(looking={"autotune": True, "strategy": "batched"})) == []


def test_what_is_tuned_is_what_the_file_says() -> None:
    several = {"ranks": {"stream": "items", "key": "seller_id", "autotune": True, "page_rows": 9}}
    pipeline = make_pipeline(
        windows=(None, None),
        looking={"autotune": True, "cache": {"memory": "16MB"}},
        join={"preset": "mjoin", "autotune": True, "purge_every": 400},
        others=several,
    )
    bounds = {each.name: (each.least, each.most, each.takes_memory) for each in tuned_of(pipeline)}

    assert tuned_of(make_pipeline()) == []
    assert bounds == {
        "steps.known.lookup.page_rows": (16, 16_384, False),
        "steps.known.lookup.cache.memory": (1_000_000, 64_000_000, True),
        "steps.of_ranks.lookup.page_rows": (9, 16_384, False),
        "steps.matched.purge_every": (1, 400, True),
    }


def test_costs_are_of_the_figures_that_a_batch_tells(ops: OpsDatabase, tmp_path: Path) -> None:
    job = Job(ops, tmp_path, 100, strategy="scan", cache={"memory": "1MB"})
    job.pipeline = make_pipeline(looking={"autotune": True, "cache": {}}, join={"autotune": True})
    job.run(1, rows=30)
    samples = add(report["samples"] for report in job.tasks.reports)
    pages, cache, purging = (each.spent(samples) for each in tuned_of(job.pipeline))

    assert pages == cache
    no_pages = samples | {sample("lookup_pages", relation="sellers"): 0}
    assert [each.spent(no_pages).seconds for each in tuned_of(job.pipeline)][:2] == [0, cache.seconds]
    assert (pages.came, pages.waiting, purging.came) == (30, 0, 30)
    assert 0 < pages.seconds < 5
    assert 0 < purging.seconds < 5
