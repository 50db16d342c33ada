"""The pace of a job: the size and frequency of its batches, which a turn of `batch.*` changes between two
batches.

Spark fixes both when a query starts. So the job ends its query and starts another one from the same
checkpoint. A query must not be stopped while its sink works, since that sink would go on beside the sink of
the next query. So the sink refuses the first batch after such a turn before it does anything. The refusal
ends the query, and the next query begins with the refused batch. If no batch comes, the job stops the query
while it waits.

A job reads turns in its batches. If a query waits long for its next batch and somebody has turned a knob, the
job ends the query, too, since the next query begins with a batch.

The job starts at most five more queries in any 150 s. A start takes about 2 s, in which nothing is joined, so
a client that turns a knob once a second would stop the job. Each start also leaves descriptors open:
Spark 4.2.1 never closes the selector of the Python process that plans a stateful query
(`PythonWorkerFactory.createSimpleWorker`). A selector takes three descriptors and a thread; after 15 turns
there were 45 descriptors and 15 threads.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from endmark.control.tuning.knobs import filed, steps_of
from endmark.errors import EndmarkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from endmark.pipeline import Pipeline

_STEP = "batch."
_LONG_SECONDS = 5.0  # between batches; more than twice the start of a query
_STARTS, _STARTS_SECONDS = 5, 150.0


class NewPaceError(EndmarkError):
    """The query ends before a batch so that the job starts another one; nothing is wrong."""


class Pace:
    """The size and frequency of a job's batches, which may change from query to query.

    Args:
        pipeline: the job's pipeline.
        turns: past turns of all knobs, as rows of the ops database.
        fixed: whether later turns are ignored, as in a job that stops by itself.
        clock: returns seconds that never go back.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        turns: Iterable[Mapping[str, Any]],
        *,
        fixed: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        every = filed(steps_of(pipeline))
        self._values = {name: value for name, value in every.items() if name.startswith(_STEP)}
        self._pause_below = pipeline.batch.pause_below
        self._fixed = False
        self.take(turns)
        self._fixed = fixed
        self._running = dict(self._values)
        self._woken = False
        self._clock = clock
        self._started_again: deque[float] = deque(maxlen=_STARTS)

    @property
    def records(self) -> int:
        """The most records that a batch reads."""
        return int(self._values[f"{_STEP}records"])

    def full_batch(self, partitions: int) -> int | None:
        """Return the records from which on a batch is no pause; `None`: each batch is one.

        Args:
            partitions: the partitions that a batch is shared out among.
        """
        if self._fixed:
            return None
        # Spark rounds the share of each partition down. A pulse alone is a pause.
        most = self.records - partitions
        return max(2, most if self._pause_below is None else min(most, self._pause_below))

    @property
    def trigger(self) -> dict[str, Any]:
        """The trigger, as Spark's `DataStreamWriter.trigger` takes it."""
        return (
            {"availableNow": True}
            if self._fixed
            else {"processingTime": f"{round(1000 * self._values[f'{_STEP}every'])} milliseconds"}
        )

    @property
    def is_new(self) -> bool:
        """True from when the running query has to end for another one until the other one starts."""
        return self._differs and (
            len(self._started_again) < _STARTS or self._clock() - self._started_again[0] >= _STARTS_SECONDS
        )

    @property
    def waits_long(self) -> bool:
        """True if a turn may wait for the next batch longer than a new query takes to start."""
        return not self._fixed and self._running[f"{_STEP}every"] > _LONG_SECONDS

    def wake(self) -> None:
        """Make `is_new` true although the pace stays the same, so that the running query ends."""
        self._woken = True

    def start(self) -> None:
        """Note that a query with the current pace starts now."""
        if self._differs:
            self._started_again.append(self._clock())
        self._running = dict(self._values)
        self._woken = False

    def take(self, turns: Iterable[Mapping[str, Any]]) -> None:
        """Take the turns that a batch has read, as rows of the ops database."""
        if self._fixed:
            return
        for turn in sorted(turns, key=lambda turn: (turn["partition"], turn["offset"])):
            if turn["refused"] is None and turn["name"] in self._values:
                self._values[turn["name"]] = turn["value"]

    def require_same(self) -> None:
        """Refuse a batch if the pace has changed. The sink calls this before it does anything.

        Raises:
            NewPaceError: the batch is left to the next query.
        """
        if self.is_new:
            raise NewPaceError("a knob was turned; the job starts its query again")

    @property
    def _differs(self) -> bool:
        return self._woken or self._values != self._running
