"""Adds Spark's figures of a committed batch to the ops database: durations and offsets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext
from pyspark.sql.streaming.listener import StreamingQueryListener

from endmark.metrics import Samples, sample

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endmark.control.ops_database.database import OpsDatabase

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

    Java calls this object itself and hands over its own events. PySpark's listener would first copy each of
    their hundred figures by several calls to Java, 40 % of what the driver's Python did in a small batch.
    """

    def __init__(self, ops: OpsDatabase, pipeline: str) -> None:
        self._ops = ops
        self._pipeline = pipeline

    @property
    def _jlistener(self) -> Any:
        """Java's listener that calls this object; PySpark asks for it once."""
        java: Any = SparkContext._jvm
        return java.PythonStreamingQueryListenerWrapper(self)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        progress = json.loads(event.progress().json())
        self._ops.batches.amend(self._pipeline, progress["batchId"], samples(progress), read(progress))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass

    class Java:
        """Py4J reads here which interface of Java this object implements."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


def samples(progress: Mapping[str, Any]) -> Samples:
    """Return the seconds of a batch's phases and of its commits of state, given Spark's progress."""
    spent = progress["durationMs"]
    found: Samples = {
        sample("batch_seconds", phase=ours): spent[sparks] / 1000
        for sparks, ours in _PHASES.items()
        if sparks in spent
    }
    committing = sum(operator["commitTimeMs"] for operator in progress["stateOperators"])
    found[sample("state_commit_seconds")] = committing / 1000
    return found


def read(progress: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return the first offset that is not read, by topic and partition, given Spark's progress."""
    offsets: dict[str, dict[str, int]] = {}
    for source in progress["sources"]:
        offsets |= source["endOffset"]
    return offsets
