"""The pace of a job: the size and frequency of its batches, which a turn of `batch.*` changes between two
batches.

Spark fixes both when a query starts. So the job ends its query and starts another one from the same
checkpoint. A query must not be stopped while its sink works, or that would go on beside the sink of the next
query. So the sink refuses the batch that comes after such a turn before anything is done for it. This ends
the query, and the next query begins with that batch. If no batch comes, the job stops the query while it
waits.

A job hears of a turn from a batch. So a query that waits long for its next batch is ended, too, when somebody
has turned a knob meanwhile: the next query begins with a batch.

The job starts at most five queries again in any 150 s. A start takes about 2 s, in which nothing is joined,
so a client that turns a knob once a second would stop the job. Each start also leaves something open in
Spark 4.2.1, which never closes the selector of the Python process that plans a stateful query
(`PythonWorkerFactory.createSimpleWorker`): three descriptors and a thread, 45 and 15 after 15 turns.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from endmark.control.knobs import filed, steps_of
from endmark.errors import EndmarkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from endmark.pipeline import Pipeline

_STEP = "batch."
_LONG_SECONDS = 5.0  # between batches: some times what it takes to start a query
_STARTS, _STARTS_SECONDS = 5, 150.0


class NewPaceError(EndmarkError):
    """The query ends before a batch, and the job starts another one: nothing is wrong."""


class Pace:
    """The size and frequency of a job's batches, which may change from query to query.

    Args:
        pipeline: of the job.
        turns: of all knobs, as the ops database has them.
        fixed: whether turns that come from now on are of no consequence.
        clock: seconds that never go back.
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
        """True once the running query has to make way for another one, until that one starts."""
        return self._differs and (
            len(self._started_again) < _STARTS or self._clock() - self._started_again[0] >= _STARTS_SECONDS
        )

    @property
    def waits_long(self) -> bool:
        """True if the running query may let a turn wait for longer than a new query takes to start."""
        return not self._fixed and self._running[f"{_STEP}every"] > _LONG_SECONDS

    def wake(self) -> None:
        """End the running query although its pace stays the same."""
        self._woken = True

    def start(self) -> None:
        """Note that a query starts now."""
        if self._differs:
            self._started_again.append(self._clock())
        self._running = dict(self._values)
        self._woken = False

    def take(self, turns: Iterable[Mapping[str, Any]]) -> None:
        """Take the turns of a batch."""
        if self._fixed:
            return
        for turn in sorted(turns, key=lambda turn: (turn["partition"], turn["offset"])):
            if turn["refused"] is None and turn["name"] in self._values:
                self._values[turn["name"]] = turn["value"]

    def require_same(self) -> None:
        """Refuse a batch, before anything is done for it, if the pace has changed.

        Raises:
            NewPaceError: it is for the next query.
        """
        if self.is_new:
            raise NewPaceError("a knob was turned; the job starts its query again")

    @property
    def _differs(self) -> bool:
        return self._woken or self._values != self._running
