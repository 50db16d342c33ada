"""The state of one side of PWJoin, with every row in a list by time and in one by key (CIKM'04, section 4.1).

Both lists only grow at the tail and shrink at the head, so deques are enough.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from endmark.domain import Domain
from endmark.punctuation.pattern import Anything, Between, Pattern, Value
from endmark.punctuation.ranges import Ranges
from endmark_papers.algorithms.contract import Counters, Row


class Flag(Enum):
    """The stage that the closing of a value by its own side has reached."""

    NONE = auto()
    PUNCTUATED = auto()  # closed
    PROPAGATED = auto()  # closed, announced, and no row is left


@dataclass(slots=True, eq=False)
class INode:
    """A value in the index.

    Args:
        key: the value.
        flag: how far its closing by its own side has come.
        rows: its rows, oldest first.
    """

    key: Value
    flag: Flag = Flag.NONE
    rows: deque[TNode] = field(default_factory=deque)


@dataclass(slots=True, eq=False)
class TNode:
    """A node of a row, which stands in both lists.

    Args:
        row: the row; `None` once it is purged, until the node reaches the head of the time list.
        inode: the row's value in the index; the paper reaches it through a ring.
    """

    row: Row | None
    inode: INode


class WindowState:
    """The rows of one side, found by key and by age.

    Attributes:
        index: I-Nodes by key. These are the values with rows, and closed values that the other side has not
            closed yet.
        closed: everything that the side has closed, the paper's PR. Intervals are kept only here.

    Args:
        window: the time for which a row joins later rows, in the unit of the rows' time; `None`: for ever.
        domain: the type of the keys.
        counters: counts inserts, purged and invalidated rows, and the rows and nodes held.
    """

    def __init__(self, window: float | None, domain: Domain, counters: Counters) -> None:
        self.window = window
        self.index: dict[Value, INode] = {}
        self.closed = Ranges(domain)
        self._time_list: deque[TNode] = deque()
        """Rows by age. Purged ones leave when they reach the head. Without a window the list stays empty."""
        self._counters = counters

    def __iter__(self) -> Iterator[Row]:
        for inode in self.index.values():
            yield from _rows(inode)

    def find(self, key: Value) -> tuple[Flag, list[Row]]:
        """Return how far the closing of a value has come, and its rows, oldest first."""
        inode = self.index.get(key)
        if inode is None:
            return Flag.PUNCTUATED if self.closed.contains(key) else Flag.NONE, []
        return inode.flag, _rows(inode)

    def insert(self, key: Value, row: Row) -> None:
        inode = self.index.get(key) or self.add(key, Flag.NONE)
        node = TNode(row, inode)
        inode.rows.append(node)
        if self.window is not None:
            self._time_list.append(node)
        self._counters.inserts += 1
        self._counters.state_nodes += 1
        self._counters.hold(1)

    def add(self, key: Value, flag: Flag) -> INode:
        """Make an I-Node for a value that has none."""
        self.index[key] = inode = INode(key, flag)
        self._counters.state_nodes += 1
        return inode

    def close(self, pattern: Pattern) -> list[Pattern]:
        """Add a pattern to the closed values; return what is new, as disjoint patterns.

        `Anything` closes null, too. A null joins nothing, so it is not in the new part.
        """
        new = self.closed.add(Between() if isinstance(pattern, Anything) else pattern)
        self.closed.add(pattern)
        return new

    def invalidate(self, now: float) -> list[Value]:
        """Remove rows that have left the window by `now`; return the closed values whose last row that was.

        These values are flagged as propagated.
        """
        ended = []
        while self._time_list and self._is_over(self._time_list[0].row, now):
            node = self._time_list.popleft()
            self._counters.state_nodes -= 1
            if node.row is not None:
                self._counters.invalidated += 1
                self._counters.hold(-1)
                ended += self._expire(node.inode)
        return ended

    def purge(self, key: Value) -> INode | None:
        """Remove a value with its rows; return its I-Node, which keeps its flag, or `None` if it had none."""
        inode = self.index.pop(key, None)
        if inode is not None:
            purged = len(inode.rows)
            for node in inode.rows:
                node.row = None
            inode.rows.clear()
            self._counters.purged += purged
            self._counters.hold(-purged)
            self._counters.state_nodes -= 1 + (purged if self.window is None else 0)
        return inode

    def _is_over(self, row: Row | None, now: float) -> bool:
        return row is None or (self.window is not None and row.time + self.window < now)

    def _expire(self, inode: INode) -> list[Value]:
        """Remove the oldest row of a value; return the value if it is closed and has no more rows."""
        inode.rows.popleft()
        if inode.rows:
            return []
        if inode.flag is Flag.PUNCTUATED:
            inode.flag = Flag.PROPAGATED
            return [inode.key]
        del self.index[inode.key]
        self._counters.state_nodes -= 1
        return []


def _rows(inode: INode) -> list[Row]:
    return [node.row for node in inode.rows if node.row is not None]
