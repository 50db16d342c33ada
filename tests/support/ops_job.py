"""A stand-in for the job towards the ops database: batches as a run of the auction would write them."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from endmark.control.description import describe
from endmark.control.ops_database.database import OpsDatabase
from endmark.control.ops_database.forecasts import (
    ForMemory,
    ForPreset,
    JoinStateForecast,
    LookupForecast,
    StreamPremises,
    StreamState,
)
from endmark.control.ops_database.tables import batches
from endmark.metrics import Samples, sample
from endmark.operators.stream_join.presets import Preset
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION

PIPELINE = "auction"
API = f"/api/pipelines/{PIPELINE}"


@dataclass
class Job:
    """Writes what a job would: a batch a second whose state fills, is purged and fills again."""

    database: OpsDatabase
    run_id: str = "run-1"
    batch_id: int = -1
    random: random.Random = field(default_factory=lambda: random.Random(7))

    def start(self) -> None:
        self.database.runs.start(self.run_id, PIPELINE, "app", "/checkpoint")
        self.database.runs.set_state(self.run_id, "running")

    def commit(self, age: float = 0.0, told: Samples | None = None, now: float | None = None) -> Samples:
        """Record the next batch, committed `age` seconds before `now`, with samples `told` added to its own.

        `now` is in seconds since 1970. Batches that are one second apart need a `now` in common: on a busy
        machine, the clock moved by 0.04 s between two calls, and the dashboard showed 4 % less a second.
        """
        self.batch_id += 1
        samples = self._samples(self.batch_id) | (told or {})
        self.database.runs.sign_of_life(self.run_id)
        self.database.batches.record(PIPELINE, self.batch_id, self.run_id, samples, {"bids": {"0": 1}})
        # A reader between the two writes would see the batch change, so a batch of now is written once.
        if age or now is not None:
            at = (time.time() if now is None else now) - age
            here = batches.c.batch_id == self.batch_id
            with self.database.engine.begin() as connection:
                connection.execute(batches.update().where(here).values(committed_at=at))
        return samples

    def _samples(self, n: int) -> Samples:
        wave = 1 + 0.25 * math.sin(n / 9) + self.random.uniform(-0.06, 0.06)
        bids, items = round(2400 * wave), round(310 * wave)
        live = round(26_000 * min(1.0, n / 40) * (1 + 0.12 * math.sin(n / 6)))
        pages = round(95 + 30 * math.sin(n / 14) + self.random.uniform(0, 9))
        phases = {"read": 0.08, "join": 0.31 * wave, "lookup": 0.17 * wave, "write": 0.14}
        tasks = {"lookup": bids / 100_000, "probe": 0.2 * wave, "shuffle": 0.1 * wave}
        samples = {
            sample("records_total", stream="bids"): bids + 4,
            sample("records_total", stream="items"): items + 12,
            sample("rows_total", stream="bids"): bids,
            sample("rows_total", stream="items"): items,
            sample("punctuations_total", stream="bids"): 3,
            sample("punctuations_total", stream="items"): 12,
            sample("partition_punctuations_total", stream="bids", partition="0"): 3,
            sample("partition_punctuations_total", stream="items", partition="0"): 5,
            sample("partition_punctuations_total", stream="items", partition="1"): 7 if n < 60 else 0,
            sample("partition_violations_total", stream="items", partition="1"): 2 if n % 4 == 0 else 0,
            sample("dead_letters_total", reason="not_json"): 1 if n % 3 == 0 else 0,
            sample("dead_letters_total", reason="wrong_type"): 1 if n % 7 == 0 else 0,
            sample("violations_total", reason="late"): 2 if n % 4 == 0 else 0,
            sample("violations_total", reason="closed"): 1 if n % 5 == 0 else 0,
            sample("lookup_rows_total", relation="sellers"): bids,
            sample("lookup_missed_rows_total", relation="sellers"): 5,
            sample("lookup_reads_total", relation="sellers", by="page"): pages,
            sample("lookup_expected_seconds", relation="sellers", strategy="auto"): 0.2,
            sample("lookup_expected_seconds", relation="sellers", strategy="scan"): 3.5,
            sample("lookup_pending_rows", relation="sellers"): 1234,
            sample("lookup_read_rows_total", relation="sellers"): pages * 500,
            sample("lookup_read_seconds_total", relation="sellers"): 0.21,
            sample("join_results_total"): round(1900 * wave),
            sample("join_inserted_rows_total", stream="bids"): bids - 60,
            sample("join_dropped_rows_total", stream="bids"): 60,
            sample("join_invalidated_rows_total", stream="items"): round(120 * wave),
            sample("join_purged_rows_total", stream="bids"): round(2100 * wave) if n > 20 else 0,
            sample("propagated_punctuations_total", by="closed"): 11,
            sample("groups_closed_total", step="by_item"): 11,
            sample("state_rows", operator="join", stream="bids"): live,
            sample("state_rows", operator="join", stream="items"): round(live / 4),
            sample("state_rows", operator="aggregate", stream="by_item"): round(live / 9),
            sample("state_bytes", operator="join", stream="bids"): live * 74,
            sample("state_bytes", operator="join", stream="items"): live * 19,
            sample("state_segments", operator="join"): 24 + n % 9,
            sample("partition_behind_seconds", stream="bids", partition="0"): 0,
            sample("partition_behind_seconds", stream="bids", partition="1"): 40,
            sample("progress_event_time_seconds", stream="bids"): 1.8e9 + n,
            sample("progress_behind_seconds", stream="bids"): 42,
            sample("partition_behind_seconds", stream="items", partition="0"): 0,
            sample("silent_partitions", stream="items", partition="2"): 1,
            sample("pending_punctuations", stream="items", waits_for="window"): 40
            + round(12 * math.sin(n / 5)),
            sample("closed_keys", stream="items"): 11 * n,
            **{sample("profile_seconds_total", phase=phase): spent for phase, spent in tasks.items()},
            sample("compute_seconds"): 0.4 * wave,
            sample("batch_seconds", phase="total"): sum(phases.values()) + 0.03,
            **latencies("bids", {0.75: bids // 2, 1: bids - bids // 2}, 0.7 * wave, 0.95 * wave),
            **latencies("items", {0.75: items}, 0.6 * wave, 0.7 * wave),
        }
        return {key: float(value) for key, value in samples.items()} | {
            sample("batch_seconds", phase=phase): seconds for phase, seconds in phases.items()
        }


def latencies(stream: str, records: Mapping[float, int], half: float, most: float) -> Samples:
    """Return the samples of a stream's latency.

    Args:
        stream: the stream.
        records: the number of records by the upper bound of their bucket, in seconds.
        half: the latency of half of them.
        most: the latency of 99 of 100.
    """
    counts = {
        sample("latency_records_total", stream=stream, up_to=f"{bound:g}"): float(count)
        for bound, count in records.items()
    }
    return counts | {
        sample("latency_seconds_total", stream=stream): half * sum(records.values()),
        sample("batch_latency_seconds", stream=stream, percentile="p50"): half,
        sample("batch_latency_seconds", stream=stream, percentile="p99"): most,
    }


def costs_of(relation: str, rows: float, page: float = 2e-3) -> Samples:
    """Return samples of two tasks that look up in 1,000 pages of 500 rows, with rows of 100 bytes."""
    costs = {"seek": 3e-4, "page": page, "trip": 4e-4, "key": 1e-4, "row": 1e-6}
    told = {sample("lookup_cost_seconds", relation=relation, of=of): value for of, value in costs.items()}
    figures = {
        "lookup_tasks": 2.0,
        "lookup_pages": 1000.0,
        "lookup_rows_total": rows + 50.0,
        "lookup_cached_rows_total": 50.0,
        "lookup_ordered_rows_total": 2 * rows,
        "lookup_ordered_bytes_total": 200 * rows,
        "lookup_ordered_seconds_total": 2e-7 * rows,
    }
    return told | {sample(name, relation=relation): value for name, value in figures.items()}


def forecast_of(relation: str, fastest: float = 200_000.0) -> LookupForecast:
    """Return a forecast of `endmark plan` by which `hybrid` is the fastest with enough memory, else
    `batched`."""
    rates = {"batched": fastest / 2, "scan": fastest / 20, "inlj": fastest / 100}
    return LookupForecast(
        relation=relation,
        made_at=time.time(),
        relation_rows=500_000,
        page_rows=500,
        batch_rows=100_000,
        exponent=0.0,
        memory=50_000_000,
        waiting=["hybrid"],
        by_memory=[
            ForMemory(memory=int(part * 50_000_000), rates={"hybrid": min(1.0, part) * fastest, **rates})
            for part in (0.25, 0.5, 1.0, 2.0, 4.0)
        ],
    )


def join_forecast_of(rows: float, measured_until: float | None = None) -> JoinStateForecast:
    """Return a forecast of the auction's join, such as `endmark plan` makes.

    Args:
        rows: the predicted rows in state of each stream under `auto`, with 50 bytes each.
        measured_until: Unix seconds of the newest batch in whose figures it was made; `None`: all were given.
    """

    def of_preset(preset: Preset, part: float | None) -> ForPreset:
        states = [
            StreamState(stream=name, rows=part and part * rows, bytes=part and 50 * part * rows)
            for name in ("items", "bids")
        ]
        frees = {Preset.AUTO: ["punctuations", "windows"], Preset.PJOIN: ["punctuations"]}.get(preset, [])
        after = 8.0 if preset is Preset.AUTO else None
        return ForPreset.model_validate(
            {"preset": preset, "frees": frees, "streams": states, "announced_after": after}
        )

    return JoinStateForecast(
        made_at=time.time() - 7200,
        preset=Preset.AUTO,
        windows=[60.0, 10.0],
        purge_every=1,
        measured_until=measured_until,
        given=measured_until is None,
        lag=20.0,
        left_first=0.9,
        batch_seconds=1.0,
        streams=[
            StreamPremises(stream="items", rate=10.0, interval=None, until_closed=30.0, row_bytes=50),
            StreamPremises(stream="bids", rate=2400.0, interval=800.0, until_closed=None, row_bytes=50),
        ],
        by_preset=[of_preset(Preset.AUTO, 1.0), of_preset(Preset.PJOIN, 3.0), of_preset(Preset.SHJ, None)],
    )


def described_job(database: OpsDatabase) -> Job:
    """Start a job that has stored the description of the auction, and has no batch yet."""
    pipeline = load(AUCTION, {"ENDMARK_RELATION_URL": "sqlite://"})
    database.pipelines.describe(PIPELINE, describe(pipeline).model_dump())
    job = Job(database)
    job.start()
    return job


@contextmanager
def job_in(directory: Path) -> Iterator[Job]:
    """A job whose ops database is a file in this directory."""
    database = OpsDatabase(f"sqlite:///{directory / 'ops.db'}")
    yield Job(database)
    database.close()
