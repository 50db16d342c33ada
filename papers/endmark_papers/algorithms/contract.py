"""The interface of every stream join of the papers: its input, its output, and what it counts."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from endmark.punctuation.pattern import Pattern

ROW_BYTES = 20  # a stream tuple, UoA-SE-2010-2 table 2
NODE_BYTES = 12  # a queue node there; taken for every index or list node of the others too


class Side(StrEnum):
    """One input of a stream join."""

    LEFT = "left"
    RIGHT = "right"

    @property
    def other(self) -> Side:
        return Side.RIGHT if self is Side.LEFT else Side.LEFT


class Row(NamedTuple):
    """A data row. `time` is event time in any unit; `serial` tells rows of equal key and time apart."""

    side: Side
    key: Hashable
    time: float
    serial: int


class Closing(NamedTuple):
    """A punctuation: no more rows of this side whose join key matches."""

    side: Side
    pattern: Pattern
    time: float


Element = Row | Closing


class Result(NamedTuple):
    """A joined pair."""

    left: Row
    right: Row

    @classmethod
    def of(cls, one: Row, other: Row) -> Result:
        """Make a result of one row of each side, in any order."""
        return cls(one, other) if one.side is Side.LEFT else cls(other, one)


class Announced(NamedTuple):
    """An output punctuation: no more results whose join key matches."""

    pattern: Pattern


class Violation(NamedTuple):
    """A row that its own stream had ruled out. It is not joined."""

    row: Row


Output = Result | Announced | Violation


class Held:
    """The rows and nodes that an operator holds, as a set of counters."""

    state_rows: int
    state_nodes: int
    peak_rows: int

    @property
    def state_bytes(self) -> int:
        """Nominal bytes of what is held now."""
        return self.state_rows * ROW_BYTES + self.state_nodes * NODE_BYTES

    def hold(self, rows: int) -> None:
        """Note that so many more (or, negative, fewer) rows are held."""
        self.state_rows += rows
        self.peak_rows = max(self.peak_rows, self.state_rows)


@dataclass(slots=True)
class Counters(Held):
    """The counts of an operator's work since it began, and of what it holds.

    Attributes:
        probes: rows looked at to find partners, whether they joined or not.
        results: pairs emitted.
        inserts: rows put into state.
        dropped: rows never stored, since nothing could join them any more.
        purged: rows removed because of a punctuation.
        invalidated: rows removed because of a window.
        announced: output punctuations.
        violations: rows their own stream had ruled out.
        page_writes: times a partition was written to disk.
        page_reads: times a disk partition was read back.
        state_rows: rows held now, in memory, on disk, and waiting.
        state_nodes: index, list and queue nodes held now.
        peak_rows: the most rows held at a time.
    """

    probes: int = 0
    results: int = 0
    inserts: int = 0
    dropped: int = 0
    purged: int = 0
    invalidated: int = 0
    announced: int = 0
    violations: int = 0
    page_writes: int = 0
    page_reads: int = 0
    state_rows: int = 0
    state_nodes: int = 0
    peak_rows: int = 0


class ReferenceJoin(Protocol):
    """An inner equi-join of two streams.

    Outputs come in order: a result after an announcement that matches it is a fault. All state is in plain
    objects, so `copy.deepcopy` is a checkpoint.
    """

    @property
    def counters(self) -> Counters: ...

    def process(self, element: Element) -> list[Output]:
        """Take one element through every step it causes."""
        ...

    def idle(self) -> list[Output]:
        """Both inputs pause: do what an operator does then."""
        ...

    def finish(self) -> list[Output]:
        """Both inputs have ended: emit what is left."""
        ...

    def live(self) -> Iterator[Row]:
        """Rows held, wherever they are."""
        ...
