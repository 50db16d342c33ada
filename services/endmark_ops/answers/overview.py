"""The overview of a pipeline: one line of the list of all pipelines."""

from __future__ import annotations

from collections.abc import Sequence

from endmark.control.ops_database.batches import FinishedBatch
from endmark.metrics import total
from endmark_ops.answers import health
from endmark_ops.answers.alerts import alerts
from endmark_ops.answers.models import OldestProgress, PipelineOverview, StreamProgress
from endmark_ops.answers.progress import stream_progress
from endmark_ops.readers.source import OpsSource, Snapshot

BATCHES = 10  # rates are averages over so many last batches


def overview(source: OpsSource, stale_seconds: float) -> PipelineOverview:
    """Return the overview of a pipeline.

    Args:
        source: the pipeline's part of the ops database.
        stale_seconds: age of the last batch, in seconds, above which a running job counts as stale.

    Raises:
        UnreadableError: the database cannot be read.
    """
    snapshot = source.snapshot()
    last = source.batches(-1, BATCHES + 1)
    progress = stream_progress(snapshot.batch.totals if snapshot.batch else {})
    return PipelineOverview(
        pipeline=source.pipeline,
        state=health.state(snapshot, stale_seconds),
        now=snapshot.now,
        lag_records=None if snapshot.lag is None else sum(snapshot.lag.values()),
        records_per_second=_rate(snapshot, last, stale_seconds),
        oldest_progress=_oldest(progress),
        last_batch_age_seconds=snapshot.batch_age,
        alerts=alerts(snapshot, last, stale_seconds),
    )


def _rate(snapshot: Snapshot, last: Sequence[FinishedBatch], stale_seconds: float) -> float | None:
    """Return the records read a second between the first and the last of these batches of the running job.

    The rate falls while no further batch comes. `None`: no job runs, or it has had fewer than two batches.
    """
    if health.state(snapshot, stale_seconds) not in ("running", "stale") or snapshot.run is None:
        return None
    own = [batch for batch in last if batch.run_id == snapshot.run.run_id]
    if len(own) < 2 or (seconds := own[-1].committed_at - own[0].committed_at) <= 0:
        return None
    silence = snapshot.now - own[-1].committed_at - 2 * seconds / (len(own) - 1)
    records = sum(total(batch.samples, "records_total") for batch in own[1:])
    return records / (seconds + max(0.0, silence))


def _oldest(progress: Sequence[StreamProgress]) -> OldestProgress | None:
    """Return the oldest progress of all streams; a stream without any is before all others."""
    if not progress:
        return None
    oldest = min(progress, key=lambda each: (each.event_time is not None, each.event_time or 0.0))
    return OldestProgress(
        stream=oldest.stream, event_time=oldest.event_time, behind_seconds=oldest.behind_seconds
    )
