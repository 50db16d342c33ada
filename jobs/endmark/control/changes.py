"""The ways in which fields of the pipeline file may change: by a turn, a restart or a new checkpoint.

`endmark.driver.checkpoint` compares the fields that need a new checkpoint by this table.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from endmark.control.dials import DECIDING, KNOBS

if TYPE_CHECKING:
    from collections.abc import Sequence


class Change(StrEnum):
    """The ways to change a field, the easiest first."""

    LIVE = "live"
    TURN = "turn"
    RESTART = "restart"
    NEW_CHECKPOINT = "new checkpoint"

    @property
    def advice(self) -> str:
        """The advice for people how to make such a change."""
        match self:
            case Change.LIVE:
                return "turn it while the job runs, or change the file before it was ever turned"
            case Change.TURN:
                return "turn it while the job runs; in the file it stays as the checkpoint was made with it"
            case Change.RESTART:
                return "change the file, and start the job again"
            case Change.NEW_CHECKPOINT:
                return (
                    "stop the job, change the file, and start it with a new checkpoint and an empty warehouse"
                )


PINNED = Change.TURN, Change.NEW_CHECKPOINT  # what a checkpoint keeps of a file
# Of a field and all below it that has no line of its own; `*` is any name. Lookups in a list are all alike.
CHANGES: dict[str, Change] = {
    "name": Change.RESTART,
    "streams": Change.NEW_CHECKPOINT,
    "streams.*.event_time.lateness": Change.NEW_CHECKPOINT,
    "streams.*.quarantine": Change.RESTART,
    "relations": Change.NEW_CHECKPOINT,
    "relations.*.url": Change.RESTART,
    "relations.*.table": Change.RESTART,
    "relations.*.retry": Change.RESTART,
    "lookup": Change.NEW_CHECKPOINT,
    "lookup.miss.park.delay": Change.RESTART,
    "lookup.miss.park.attempts": Change.RESTART,
    "lookup.cache": Change.RESTART,
    "lookup.autotune": Change.RESTART,
    "join": Change.NEW_CHECKPOINT,
    "join.window": Change.NEW_CHECKPOINT,
    "join.autotune": Change.RESTART,
    **dict.fromkeys(KNOBS, Change.LIVE),
    **dict.fromkeys(DECIDING, Change.TURN),
    "aggregate": Change.NEW_CHECKPOINT,
    "tables": Change.NEW_CHECKPOINT,
    "publish": Change.RESTART,
    "control": Change.NEW_CHECKPOINT,
    "unbounded_state": Change.RESTART,
}
REMARKS = {
    "name": "names the control topic, unless control.topic does",
    "streams.*.event_time.lateness": "rows are judged by it where they are read, before a turn is heard of",
    "join.window": "keys are final, and rows gone, by what it was; which rows meet would hang on a batch",
    "streams.*.event_time.idle": "of a stream that has it; whether one has, takes a new checkpoint",
    "lookup.cache": "whether there is one",
    "publish": "another topic for each checkpoint",
}


def change_of(path: Sequence[str]) -> Change:
    """Return how a field may change, given its names from the top of the file on.

    Raises:
        KeyError: a pipeline file has no such part.
    """
    return CHANGES[_line_of(path)]


def remark_of(path: Sequence[str]) -> str | None:
    """Return a remark on how a field may change, for people; `None` if there is none.

    Raises:
        KeyError: a pipeline file has no such part.
    """
    return REMARKS.get(_line_of(path))


def _line_of(path: Sequence[str]) -> str:
    for end in range(len(path), 0, -1):
        for pattern in CHANGES:
            if fits(pattern, path[:end]):
                return pattern
    raise KeyError(".".join(path))


def fits(pattern: str, path: Sequence[str]) -> bool:
    """Return whether these names are those of a pattern, in which `*` is any name."""
    parts = pattern.split(".")
    same = (part in ("*", name) for part, name in zip(parts, path, strict=False))
    return len(parts) == len(path) and all(same)
