"""The quarantine stops a job when too many of a stream's last records are dead letters.

A single bad record becomes a dead letter. When more than a share of the records are bad, the producer is
wrong, and a job that went on would make everything a dead letter. The batch that exceeds the share is still
committed to the tables and to Spark's checkpoint. So none of its dead letters is lost, and the next run goes
on behind them. No batch begins after it.

The driver counts records by whole batches. The last records of a stream are those of its newest batches that
together have `of` records or more. Each run counts anew. Whoever starts the job again has seen the error, and
a run that counted the past would end after its first batch, even if all of that batch's records were good.
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
    """Too many of a stream's last records are dead letters; the text says which and what to do."""


class Quarantine:
    """Counts the dead letters of a job's streams.

    A row without a match (`no_match`) does not count, since its record was sound, and it may become a dead
    letter long after it was read. Records of the control topic do not count either.

    Args:
        pipeline: the job's pipeline.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        limits = {name: stream.quarantine for name, stream in pipeline.streams.items()}
        self._windows = {name: _Window(name, limit) for name, limit in limits.items() if limit != "off"}
        self._failure: str | None = None

    @property
    def is_full(self) -> bool:
        """True once the job has to stop."""
        return self._failure is not None

    def take(self, samples: Samples, reports: Iterable[Mapping[str, Any]]) -> None:
        """Count the records of a committed batch.

        Args:
            samples: the samples of the batch.
            reports: the reports of its tasks. Their field `unreadable` has, by stream and reason, the number
                of dead letters (`records`), and the coordinates and error of one of them (`at`, `error`).
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
class _CountedBatch:
    """The records of a stream in one batch, and its dead letters by reason."""

    records: int
    reasons: Counter[str] = field(default_factory=Counter)


class _Window:
    """The newest batches of a stream, with `of` records or more together."""

    def __init__(self, stream: str, limit: Limit) -> None:
        self._stream = stream
        self._limit = limit
        self._batches: deque[_CountedBatch] = deque()
        self._examples: dict[str, dict[str, Any]] = {}

    def take(self, records: int, unreadable: Iterable[Mapping[str, dict[str, Any]]]) -> None:
        batch = _CountedBatch(records)
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

        If fewer than `of` records have been read, the missing ones count as good.
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
