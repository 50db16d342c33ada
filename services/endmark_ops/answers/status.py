"""Answers that several routes give, made from a snapshot or a batch of the ops database."""

from __future__ import annotations

from endmark.control.ops_database.batches import FinishedBatch
from endmark.metrics import CATALOGUE, Metric, Samples, sample
from endmark_ops.answers import health
from endmark_ops.answers.latencies import stream_latencies
from endmark_ops.answers.models import BatchPoint, LastBatch, RunInfo, Sample, Status, Total
from endmark_ops.answers.progress import stream_progress
from endmark_ops.answers.totals import by_name
from endmark_ops.readers.source import Run, Snapshot


def status_of(pipeline: str, snapshot: Snapshot, stale_seconds: float) -> Status:
    """Return the pipeline's state, its last batch and its totals.

    Args:
        pipeline: the pipeline's name.
        snapshot: the pipeline's newest run and batch.
        stale_seconds: age of the last batch, in seconds, above which a running job counts as stale.
    """
    totals = snapshot.totals
    return Status(
        pipeline=pipeline,
        state=health.state(snapshot, stale_seconds),
        now=snapshot.now,
        stale_seconds=health.stale_after(snapshot, stale_seconds),
        run=_run(snapshot.run, snapshot) if snapshot.run else None,
        last_batch=_last_batch(snapshot),
        lag_records=None if snapshot.lag is None else sum(snapshot.lag.values()),
        lag_by_topic=None if snapshot.lag is None else dict(snapshot.lag),
        gaps=list(snapshot.gaps),
        progress=stream_progress(totals),
        latency=stream_latencies(snapshot),
        totals=_totals(totals),
    )


def point_of(batch: FinishedBatch) -> BatchPoint:
    return BatchPoint(
        batch_id=batch.batch_id,
        run_id=batch.run_id,
        committed_at=batch.committed_at,
        samples=batch.samples,
        totals=batch.totals,
    )


def _run(run: Run, snapshot: Snapshot) -> RunInfo:
    until = snapshot.now if run.stopped_at is None else run.stopped_at
    return RunInfo(
        run_id=run.run_id,
        state=run.state,
        started_at=run.started_at,
        stopped_at=run.stopped_at,
        uptime_seconds=max(0.0, until - run.started_at),
        error=run.error,
        sign_of_life_age_seconds=snapshot.sign_of_life_age,
    )


def _last_batch(snapshot: Snapshot) -> LastBatch | None:
    if snapshot.batch is None or snapshot.batch_age is None:
        return None
    return LastBatch(
        batch_id=snapshot.batch.batch_id,
        run_id=snapshot.batch.run_id,
        committed_at=snapshot.batch.committed_at,
        age_seconds=snapshot.batch_age,
        seconds=snapshot.batch.samples.get(sample("batch_seconds", phase="total")),
    )


def _totals(totals: Samples) -> list[Total]:
    unknown = Metric(unit="", doc="")  # of a job of another version
    return [
        Total(
            name=name,
            kind="counter" if name.endswith("_total") else "gauge",
            unit=CATALOGUE.get(name, unknown).unit,
            help=CATALOGUE.get(name, unknown).doc,
            samples=[Sample(labels=labels, value=value) for labels, value in samples],
        )
        for name, samples in by_name(totals).items()
    ]
