"""The definition of a join of n streams, without any algorithm: all combinations of rows, filtered.

Results to come are defined in the same way. Every side that has not closed a key could send a row of it at
once, and no continuation can do more with the rows that have come. So a row is of use, and a key has results
to come, exactly if these rows give a new result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import NamedTuple

from hypothesis import strategies as st

from endmark.punctuation.pattern import Anything, Between, Equals, OneOf, Pattern
from endmark_papers.algorithms.pwjoin_nary import NaryClosing, NaryElement, NaryRow

SIDES = ("a", "b", "c", "d")
KEYS = range(3)
VALUES = range(-1, 4)  # what a pattern can tell apart: keys, and what lies below and above
Windows = dict[str, float | None]
Joined = tuple[NaryRow, ...]
_TO_COME = -1  # the serial of a row that could come


class NaryHistory(NamedTuple):
    """The windows of a join by side, and its input in order of time."""

    windows: Windows
    elements: list[NaryElement]


@dataclass
class NaryWorld:
    """All that arrived so far.

    Args:
        windows: how long a row of each side joins with later ones; `None` is for ever.
    """

    windows: Windows
    rows: list[NaryRow] = field(default_factory=list)
    closings: list[NaryClosing] = field(default_factory=list)
    violations: list[NaryRow] = field(default_factory=list)
    now: float = 0

    def arrive(self, element: NaryElement) -> None:
        self.now = element.time
        if isinstance(element, NaryClosing):
            self.closings.append(element)
        elif self.closed(element.side, element.key):
            self.violations.append(element)
        else:
            self.rows.append(element)

    def closed(self, side: str, key: object) -> bool:
        return any(
            closing.side == side and closing.pattern.matches(key)  # type: ignore[arg-type]
            for closing in self.closings
        )

    def results(self) -> set[Joined]:
        """The join of all that arrived."""
        return {joined for key in KEYS for joined in self._joined(key, [])}

    def to_come(self, key: int) -> set[Joined]:
        """The new results if each side that has not closed a key sends a row of it now."""
        more = [NaryRow(side, key, self.now, _TO_COME) for side in self.windows if not self.closed(side, key)]
        return set(self._joined(key, more)) - set(self._joined(key, []))

    def needed(self) -> set[NaryRow]:
        """The rows that came and with which a result can still come."""
        return {
            row for key in KEYS for joined in self.to_come(key) for row in joined if row.serial != _TO_COME
        }

    def over(self) -> set[int]:
        """The keys without a result to come."""
        return {key for key in VALUES if not self.to_come(key)}

    def within(self, joined: Joined) -> bool:
        """Return whether of every two rows the later one is within the window of the earlier one."""
        return all(self._within(*sorted(two, key=lambda row: row.time)) for two in combinations(joined, 2))

    def _within(self, earlier: NaryRow, later: NaryRow) -> bool:
        window = self.windows[earlier.side]
        return window is None or later.time - earlier.time <= window or later.time == earlier.time

    def _joined(self, key: int, more: list[NaryRow]) -> Iterator[Joined]:
        rows = [row for row in [*self.rows, *more] if row.key == key]
        return filter(
            self.within, product(*([row for row in rows if row.side == side] for side in self.windows))
        )


_PATTERNS: list[Pattern] = [
    *(Equals(key) for key in [*KEYS] * 4),
    OneOf(frozenset({0, 2})),
    OneOf(frozenset()),
    Between(1, 2),
    Between(None, 0),
    Between(0, None, low_open=True),
    Anything(),
]
_Move = tuple[int, int | Pattern, int]
_PLACES = range(12)  # each number of sides up to 4 divides 12
_ROWS: list[_Move] = [
    (place, key, gap) for place in _PLACES for key in (0, 0, 0, 1, 1, 2) for gap in (0, 0, 0, 1, 2)
]
_CLOSINGS: list[_Move] = [
    (place, pattern, gap) for place in _PLACES for pattern in _PATTERNS for gap in (0, 2)
]


def histories(sides: int | None = None) -> st.SearchStrategy[NaryHistory]:
    """Draw windows and input of a join of some number of sides; `None`: 2 to 4.

    Closings are few and histories long, or no row of four sides would ever find three others.
    """
    names = st.just(sides) if sides else st.integers(2, len(SIDES))
    window = st.sampled_from([None, None, 0, 2, 4, 8])
    windows = st.lists(window, min_size=len(SIDES), max_size=len(SIDES))
    moves = st.sampled_from([*_ROWS * 6, *_CLOSINGS])
    return st.builds(_history, names, windows, st.lists(moves, min_size=20, max_size=40) | st.lists(moves))


def _history(sides: int, windows: list[float | None], moves: list[_Move]) -> NaryHistory:
    """Give the moves times, serial numbers and names of sides."""
    time, elements = 0, list[NaryElement]()
    for serial, (place, said, gap) in enumerate(moves):
        time += gap
        name = SIDES[place % sides]
        elements.append(
            NaryRow(name, said, time, serial) if isinstance(said, int) else NaryClosing(name, said, time)
        )
    return NaryHistory(dict(zip(SIDES[:sides], windows, strict=False)), elements)
