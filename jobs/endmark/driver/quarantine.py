"""The quarantine stops a job when too many of a stream's last records are dead letters.

One bad record is set aside. When more than a share of them are bad the producer is wrong, and a job that
goes on would set aside everything. The batch that was too much is committed first, to the tables and to
Spark's checkpoint, so none of its dead letters is lost and the next run goes on behind them. No batch begins
after it.

Records are counted in the driver, by whole batches. The last records of a stream are those of its newest
batches that have `of` records together, or more. Each run counts anew: whoever starts the job again has seen
the error, and a run that took the past into account would end after its first batch, however good that was.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from endmark.errors import EndmarkError
from endmark.metrics import sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from endmark.metrics import Samples
    from endmark.pipeline import Pipeline
    from endmark.pipeline.sources import Quarantine as Limit


class QuarantineError(EndmarkError):
    """Too many of a stream's last records are dead letters; the text says why, and what to do."""


class Quarantine:
    """Counts the dead letters of a job's streams.

    A row without a match (`no_match`) does not count: its record was sound, and it may become a dead letter
    long after it was read. Nor do records of the control topic.

    Args:
        pipeline: of the job.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        limits = {name: pipeline.streams[name].quarantine for name in pipeline.sides}
        self._windows = {name: _Window(name, limit) for name, limit in limits.items() if limit != "off"}
        self._failure: str | None = None

    @property
    def is_full(self) -> bool:
        """True once the job has to stop."""
        return self._failure is not None

    def take(self, samples: Samples, reports: Iterable[Mapping[str, Any]]) -> None:
        """Count the records of a committed batch.

        Args:
            samples: of the batch.
            reports: of its tasks. `unreadable` has, by stream and reason, how many `records` were dead
                letters, and for one of them where it is and what is wrong (`at`, `error`).
        """
        reports = list(reports)
        for name, window in self._windows.items():
            records = round(samples.get(sample("records_total", stream=name), 0))
            if not records:
                continue
            window.take(records, [report.get("unreadable", {}).get(name, {}) for report in reports])
            self._failure = self._failure or window.failure()

    def require_room(self) -> None:
        """Refuse to go on once the quarantine is full.

        Raises:
            QuarantineError: too many records were dead letters.
        """
        if self._failure is not None:
            raise QuarantineError(self._failure)


@dataclass
class _Batch:
    records: int
    reasons: Counter[str] = field(default_factory=Counter)


class _Window:
    """The newest batches of a stream."""

    def __init__(self, stream: str, limit: Limit) -> None:
        self._stream = stream
        self._limit = limit
        self._batches: deque[_Batch] = deque()
        self._examples: dict[str, dict[str, Any]] = {}

    def take(self, records: int, unreadable: Iterable[Mapping[str, dict[str, Any]]]) -> None:
        batch = _Batch(records)
        for reasons in unreadable:
            for reason, found in reasons.items():
                batch.reasons[reason] += found["records"]
                self._examples[reason] = found
        self._batches.append(batch)
        while self._records - self._batches[0].records >= self._limit.of:
            self._batches.popleft()

    @property
    def _records(self) -> int:
        return sum(batch.records for batch in self._batches)

    def failure(self) -> str | None:
        """Describe what is wrong; `None` if the dead letters are within the limit.

        While fewer than `of` records were read, those to come are taken for good ones.
        """
        reasons: Counter[str] = Counter()
        for batch in self._batches:
            reasons.update(batch.reasons)
        bad, limit = reasons.total(), self._limit
        if bad <= limit.share * max(limit.of, self._records):
            return None
        [(reason, times)] = reasons.most_common(1)
        example = self._examples[reason]
        return (
            f"stream {self._stream}: {bad:,} of its last {self._records:,} records are dead letters, more "
            f"than {100 * limit.share:.4g}% of {limit.of:,}; {times:,} of them for {reason}, such as "
            f"{example['at']}: {example['error']}. The batch is committed, and `endmark dead-letters list` "
            "shows all of them. Mend the producer and start the job again: it goes on behind them, and "
            f"counts anew. streams.{self._stream}.quarantine sets the limit"
        )
