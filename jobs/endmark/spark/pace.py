"""How large and how frequent batches are, which a turn of `batch.*` changes between two of them.

Spark fixes both when a query starts, so the job ends its query and starts another from the same checkpoint.
A query must not be stopped while its sink works, which would go on beside that of the next one. So a batch
that comes after such a turn is refused before anything is done for it, which ends the query, and the next one
begins with it; if none comes, the job stops the query while that waits.

A turn is heard of by a batch. So a query that waits for its next one for long is also ended when somebody has
turned a knob meanwhile, since the next query begins with a batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from endmark.errors import EndmarkError
from endmark.ops.knobs import filed, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from endmark.pipeline import Pipeline

_STEP = "batch."
_LONG_SECONDS = 5.0  # between batches: some times what it takes to start a query


class NewPaceError(EndmarkError):
    """The query ends before a batch, and the job starts another one: nothing is wrong."""


class Pace:
    """Of one job, from query to query.

    Args:
        pipeline: of the job.
        turns: of all knobs, as the ops database has them.
        fixed: whether turns that come from now on are of no consequence.
    """

    def __init__(self, pipeline: Pipeline, turns: Iterable[Mapping[str, Any]], *, fixed: bool) -> None:
        every = filed(steps_of(pipeline))
        self._values = {name: value for name, value in every.items() if name.startswith(_STEP)}
        self._fixed = False
        self.take(turns)
        self._fixed = fixed
        self._running = dict(self._values)
        self._woken = False

    @property
    def records(self) -> int:
        """That a batch reads at most."""
        return int(self._values[f"{_STEP}records"])

    @property
    def trigger(self) -> dict[str, Any]:
        """As a query takes it."""
        return (
            {"availableNow": True}
            if self._fixed
            else {"processingTime": f"{self._values[f'{_STEP}every']} seconds"}
        )

    @property
    def is_new(self) -> bool:
        """Whether the query that runs is to end for another one."""
        return self._woken or self._values != self._running

    @property
    def waits_long(self) -> bool:
        """Whether the query that runs may let a turn wait for longer than another query takes to start."""
        return not self._fixed and self._running[f"{_STEP}every"] > _LONG_SECONDS

    def wake(self) -> None:
        """End the query that runs, though its pace is as it was."""
        self._woken = True

    def start(self) -> None:
        """A query starts now."""
        self._running = dict(self._values)
        self._woken = False

    def take(self, turns: Iterable[Mapping[str, Any]]) -> None:
        """Take what a batch has told of knobs."""
        if self._fixed:
            return
        for turn in sorted(turns, key=lambda turn: (turn["partition"], turn["offset"])):
            if turn["refused"] is None and turn["name"] in self._values:
                self._values[turn["name"]] = turn["value"]

    def require_same(self) -> None:
        """Before anything is done for a batch.

        Raises:
            NewPaceError: it is for the next query.
        """
        if self.is_new:
            raise NewPaceError("a knob was turned; the job starts its query again")
