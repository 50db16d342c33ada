"""Histograms of the durations of batches, which the sidecar counts as it sees batches."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from endmark.control.ops_database.batches import FinishedBatch
from endmark_ops.readers.source import OpsSource

BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)  # seconds
_TOTAL = "batch_seconds{phase=total}"
_MOST_BATCHES = 1_000  # between two scrapes


@dataclass
class Histogram:
    """The batches of a pipeline by duration, since the sidecar first saw the pipeline.

    Args:
        after: the batches with greater ids are not counted yet.
        counts: the number of batches in each bucket of `BOUNDS`, and in the one above.
        seconds: the sum of their durations.
    """

    after: int
    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    seconds: float = 0.0

    def take(self, batches: Sequence[FinishedBatch]) -> None:
        """Count batches, oldest first. The newest ones wait until the job has told their durations."""
        for batch in batches:
            if (seconds := batch.samples.get(_TOTAL)) is not None:
                self.counts[bisect_left(BOUNDS, seconds)] += 1
                self.seconds += seconds
                self.after = batch.batch_id

    def cumulative(self) -> list[tuple[str, float]]:
        """Return the upper bound of each bucket, and the number of batches up to it."""
        bounds = [*map(str, BOUNDS), "+Inf"]
        return [(bound, float(count)) for bound, count in zip(bounds, accumulate(self.counts), strict=True)]


class Durations:
    """The histograms of all pipelines. They begin at zero, so that each later batch is an increase.

    Threads may share it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._histograms: dict[str, Histogram] = {}

    def of(self, source: OpsSource, newest: FinishedBatch | None) -> Histogram:
        """Count a pipeline's batches that are new, and return its histogram.

        Args:
            source: the pipeline's part of the ops database.
            newest: the newest batch; `None`: there is none.

        Raises:
            UnreadableError: the database cannot be read.
        """
        last = -1 if newest is None else newest.batch_id
        with self._lock:
            found = self._histograms.setdefault(source.pipeline, Histogram(last))
            if last < found.after:  # the job has a new checkpoint, and counts from 0
                found.after = -1
            if last > found.after:
                found.take(source.batches(found.after, _MOST_BATCHES))
            return Histogram(found.after, list(found.counts), found.seconds)
