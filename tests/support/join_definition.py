"""What a stream join of the papers is, said without any algorithm: sets of rows, and quantifiers over them.

The three functions after `pairs` are Tucker's invariants (TKDE 15(3), 2003): what may be announced, what
must be kept, and what may be kept, given all that arrived so far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from endmark.punctuation.pattern import Pattern
from endmark_papers.algorithms.contract import Closing, Element, Result, Row, Side

Windows = dict[Side, float | None]
Knowledge = Callable[[Row, Row | None], list[Pattern]]


@dataclass
class World:
    """All that arrived so far, in order.

    Args:
        windows: how long a row of each side joins with later ones; None is for ever.
        punctuated: whether the operator under test knows punctuations.
        knowledge: what a row closes on its own side by a declared constraint, given the row before it there.
    """

    windows: Windows
    punctuated: bool
    knowledge: Knowledge = lambda row, before: []
    rows: dict[Side, list[Row]] = field(default_factory=lambda: {side: [] for side in Side})
    closings: dict[Side, list[Closing]] = field(default_factory=lambda: {side: [] for side in Side})
    clock: dict[Side, float] = field(default_factory=lambda: dict.fromkeys(Side, float("-inf")))
    violations: list[Row] = field(default_factory=list)

    def arrive(self, element: Element) -> None:
        if isinstance(element, Closing):
            if not self.punctuated:
                return
            self.closings[element.side].append(element)
        elif self.closed(element.side, element.key):
            self.violations.append(element)
            return
        else:
            rows = self.rows[element.side]
            implied = self.knowledge(element, rows[-1] if rows else None)
            self.closings[element.side] += [Closing(element.side, each, element.time) for each in implied]
            rows.append(element)
        self.clock[element.side] = element.time

    def closed(self, side: Side, key: object) -> bool:
        return any(closing.pattern.matches(key) for closing in self.closings[side])  # type: ignore[arg-type]

    def pairs(self) -> set[Result]:
        """The join of all that arrived: equal keys, the later within the window of the earlier."""
        return {
            Result(left, right)
            for left in self.rows[Side.LEFT]
            for right in self.rows[Side.RIGHT]
            if left.key == right.key and self._within(left, right)
        }

    def _within(self, left: Row, right: Row) -> bool:
        earlier = left if left.time <= right.time else right
        window = self.windows[earlier.side]
        if left.time == right.time or window is None:
            return True
        return abs(left.time - right.time) <= window

    def announceable(self, key: object) -> bool:
        """No continuation whatever gives a result of this key: one side closed it, and the other closed
        it too or has nothing left of the first that a row to come could meet."""
        return any(
            self.closed(side, key)
            and (
                self.closed(side.other, key)
                or not any(row.key == key and self._alive(row) for row in self.rows[side])
            )
            for side in Side
        )

    def needed(self) -> set[Row]:
        """Rows with which some continuation gives a result."""
        return {
            row
            for side in Side
            for row in self.rows[side]
            if not self.closed(side.other, row.key) and self._alive(row)
        }

    def keepable(self) -> set[Row]:
        """`needed`, if only the other side's clock counts: an operator need not look at windows before
        the other side moves."""
        return {
            row
            for side in Side
            for row in self.rows[side]
            if not self.closed(side.other, row.key) and self._in_window(row, self.clock[side.other])
        }

    def _alive(self, row: Row) -> bool:
        return self._in_window(row, max(self.clock.values()))

    def _in_window(self, row: Row, now: float) -> bool:
        window = self.windows[row.side]
        return window is None or row.time + window >= now
