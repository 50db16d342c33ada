"""The interface of every stream join of the papers: its input, its output, and its counters."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from endmark.punctuation.pattern import Pattern

ROW_BYTES = 20  # of a stream tuple, by UoA-SE-2010-2, table 2
NODE_BYTES = 12  # of a queue node, by the same table; taken for index and list nodes of other joins, too


class Side(StrEnum):
    """One input of a stream join."""

    LEFT = "left"
    RIGHT = "right"

    @property
    def other(self) -> Side:
        return Side.RIGHT if self is Side.LEFT else Side.LEFT


class Row(NamedTuple):
    """A data row of a stream.

    Args:
        side: the side of the join that the stream is.
        key: the value of the join key.
        time: event time, in any unit that both streams share.
        serial: tells apart rows of equal key and time.
    """

    side: Side
    key: Hashable
    time: float
    serial: int


class Closing(NamedTuple):
    """A punctuation: no more rows of a side come whose join key matches a pattern.

    Args:
        side: the side that promises it.
        pattern: the keys that it closes.
        time: event time, in the unit of the rows.
    """

    side: Side
    pattern: Pattern
    time: float


Element = Row | Closing


class Result(NamedTuple):
    """A joined pair of rows, one of each side."""

    left: Row
    right: Row

    @classmethod
    def of(cls, one: Row, other: Row) -> Result:
        """Return the result of two rows of different sides, given in any order."""
        return cls(one, other) if one.side is Side.LEFT else cls(other, one)


class Announced(NamedTuple):
    """An output punctuation: no more results come whose join key matches the pattern."""

    pattern: Pattern


class Violation(NamedTuple):
    """A row that its own stream had ruled out, and that is therefore not joined."""

    row: Row


Output = Result | Announced | Violation


class Held:
    """A base of counters, with the numbers of rows and nodes that an operator holds."""

    state_rows: int
    state_nodes: int
    peak_rows: int

    @property
    def state_bytes(self) -> int:
        """Nominal bytes of the rows and nodes held now."""
        return self.state_rows * ROW_BYTES + self.state_nodes * NODE_BYTES

    def hold(self, rows: int) -> None:
        """Count `rows` more rows as held; a negative number counts rows that are no longer held."""
        self.state_rows += rows
        self.peak_rows = max(self.peak_rows, self.state_rows)


@dataclass(slots=True)
class Counters(Held):
    """The counters of a stream join: its work since it began, and the rows and nodes that it holds.

    Args:
        probes: rows looked at to find partners, whether they joined or not.
        results: pairs emitted.
        inserts: rows put into state.
        dropped: rows never stored, since no row to come could join them.
        purged: rows removed because of a punctuation.
        invalidated: rows removed because of a window.
        announced: output punctuations.
        violations: rows that their own stream had ruled out.
        page_writes: times a partition was written to disk.
        page_reads: times a disk partition was read back.
        state_rows: rows held now, in memory, on disk and waiting.
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
    """The interface of an inner equi-join of two streams.

    The order of outputs counts: a result must not come after an announcement that matches it. All state is in
    plain objects, so `copy.deepcopy` makes a checkpoint.
    """

    @property
    def counters(self) -> Counters: ...

    def process(self, element: Element) -> list[Output]:
        """Process one element, and return the outputs of every step that it causes."""
        ...

    def idle(self) -> list[Output]:
        """Do the work that the operator leaves for a pause of both inputs, and return its outputs."""
        ...

    def finish(self) -> list[Output]:
        """End both inputs, and return the outputs that are left."""
        ...

    def live(self) -> Iterator[Row]:
        """Yield all rows held: in memory, on disk and waiting."""
        ...
