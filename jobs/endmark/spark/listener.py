"""Adds Spark's figures of a committed batch to the ops database: durations and offsets."""

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

    from endmark.control.database import OpsDatabase

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
    """Adds to each stored batch the seconds of its phases and its end offsets.

    Tasks know only the offsets of records. Behind the last record there may be offsets without a record, such
    as the end of a transaction. Without Spark's end offsets they would count as lag for ever.
    """

    def __init__(self, ops: OpsDatabase, pipeline: str) -> None:
        self._ops = ops
        self._pipeline = pipeline

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = event.progress
        self._ops.amend_batch(self._pipeline, progress.batchId, _samples(progress), _read(progress))

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
    return samples


def _read(progress: StreamingQueryProgress) -> dict[str, dict[str, int]]:
    """Return the first offset that is not read, by topic and partition."""
    offsets: dict[str, dict[str, int]] = {}
    for source in progress.sources:
        offsets |= json.loads(source.endOffset)
    return offsets
