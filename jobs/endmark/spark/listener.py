"""What Spark knows of a batch once it is committed: durations and lag, added to the ops database."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from endmark.metrics import Samples, sample

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )

    from endmark.ops.database import OpsDatabase

# Spark's names for the phases of a batch, and ours.
_PHASES = {
    "triggerExecution": "total",
    "latestOffset": "latest_offset",
    "queryPlanning": "planning",
    "walCommit": "write_ahead_log",
    "addBatch": "compute_and_write",
    "commitOffsets": "commit",
}


class BatchListener(StreamingQueryListener):
    """Amends each batch with its phases and with the records it left unread."""

    def __init__(self, ops: OpsDatabase, pipeline: str) -> None:
        self._ops = ops
        self._pipeline = pipeline

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = event.progress
        self._ops.amend_batch(self._pipeline, progress.batchId, _samples(progress))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        pass


def _samples(progress: StreamingQueryProgress) -> Samples:
    samples = {
        sample("batch_seconds", phase=ours): progress.durationMs[sparks] / 1000
        for sparks, ours in _PHASES.items()
        if sparks in progress.durationMs
    }
    committing = sum(operator.commitTimeMs for operator in progress.stateOperators)
    samples[sample("state_commit_seconds")] = committing / 1000
    for source in progress.sources:
        read, latest = _offsets(source.endOffset), _offsets(source.latestOffset)
        for topic, ends in latest.items():
            behind = sum(end - read.get(topic, {}).get(partition, 0) for partition, end in ends.items())
            samples[sample("lag_records", topic=topic)] = behind
    return samples


def _offsets(text: str) -> dict[str, dict[str, int]]:
    """By topic and partition. A batch that is repeated has no latest ones, which Spark calls `None`."""
    offsets: dict[str, dict[str, int]] = json.loads(text) if text.startswith("{") else {}
    return offsets
