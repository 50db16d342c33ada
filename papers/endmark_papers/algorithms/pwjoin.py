"""PWJoin: a join of two punctuated streams within sliding windows.

Definition: a row first invalidates the rows of the other side that have left their window. It then probes
that side, and is stored unless that side has closed its key. A punctuation purges the other side's rows of
its values. A value that one side has closed is announced when the other side closes it too (regular
propagation), or when the closing side's last row of it leaves its window (early propagation, theorem 4.1).

Paper: PWJoin (CIKM'04), section 4 and figures 3 to 5. Both inputs come in one common order of time.

Deviations: a closed value of which the closing side has no rows is announced at once, since it has no more
results; under `strict_paper` it waits for the other side, as in figure 5. Every T-Node points at its I-Node,
not only the last one of a closed value, so no ring is ever stale. An expired row leaves its value list at
once; figure 4 leaves that to the next probe, which may never come. An I-Node with neither rows nor
punctuation is removed. The join remembers the values that a side has closed after their I-Nodes are gone, as
ranges that do not count as nodes, since a repeated punctuation, or a row that breaks one, would go unnoticed
otherwise. Punctuations invalidate rows, too. An interval closes the values in the index one by one, and those
not in the index as a whole.

Complexity: a row costs its partners and the rows that it invalidates, which is amortised one removal per row
ever stored. A closed value costs its rows. An interval scans the index, where the paper would take a tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from endmark.domain import Domain
from endmark.errors import ConfigError
from endmark.punctuation.algebra import meet
from endmark.punctuation.pattern import Equals, OneOf, Pattern, Value
from endmark.punctuation.ranges import Ranges
from endmark_papers.algorithms.contract import (
    Announced,
    Closing,
    Counters,
    Element,
    Output,
    Result,
    Row,
    Side,
    Violation,
)
from endmark_papers.algorithms.pwjoin_index import Flag, WindowState


class PunctuatedWindowJoin:
    """A join of rows of equal key of which the later comes within the window of the earlier.

    Args:
        left_window: the time for which a left row joins later right rows, in the unit of the rows' time, both
            bounds included; `None`: for ever.
        right_window: the same for right rows.
        strict_paper: announce no value before both sides have closed it, or a row of it has left its window.
        domain: the type of the keys.

    Raises:
        ConfigError: a window is negative.
    """

    def __init__(
        self,
        left_window: float | None,
        right_window: float | None,
        strict_paper: bool = False,
        domain: Domain = Domain.LONG,
    ) -> None:
        windows = {Side.LEFT: left_window, Side.RIGHT: right_window}
        for side, window in windows.items():
            if window is not None and window < 0:
                raise ConfigError(f"the {side} window of PWJoin is a duration or None, not {window}")
        self.counters = Counters()
        self._states = {side: WindowState(window, domain, self.counters) for side, window in windows.items()}
        self._strict = strict_paper
        self._domain = domain
        self._settled = Ranges(domain)
        """Values that are announced, or will be when their I-Node allows it."""

    def process(self, element: Element) -> list[Output]:
        own, opposite = self._states[element.side], self._states[element.side.other]
        if isinstance(element, Closing):
            return self._close(element, own, opposite)
        return self._join(element, own, opposite)

    def idle(self) -> list[Output]:
        return []

    def finish(self) -> list[Output]:
        return []

    def live(self) -> Iterator[Row]:
        for state in self._states.values():
            yield from state

    def _join(self, row: Row, own: WindowState, opposite: WindowState) -> list[Output]:
        key = cast("Value", row.key)
        if own.closed.contains(key):
            self.counters.violations += 1
            return [Violation(row)]
        outputs = self._invalidate(opposite, row.time)
        flag, partners = opposite.find(key)
        outputs += self._results(row, partners)
        if flag is Flag.NONE:
            own.insert(key, row)
        else:
            self.counters.dropped += 1
        return outputs

    def _results(self, row: Row, partners: list[Row]) -> list[Output]:
        self.counters.probes += len(partners)
        self.counters.results += len(partners)
        return [Result.of(row, partner) for partner in partners]

    def _close(self, closing: Closing, own: WindowState, opposite: WindowState) -> list[Output]:
        new = own.close(closing.pattern)
        outputs = self._invalidate(opposite, closing.time)
        for key in self._named(closing.pattern, own, opposite):
            if any(pattern.matches(key) for pattern in new):
                outputs += self._close_value(key, own, opposite)
        if isinstance(closing.pattern, Equals | OneOf):
            return outputs
        # No row of any other value is held. Under strict_paper the other side has to close them, too.
        if self._strict:
            new = [meet(one, other, self._domain) for one in new for other in opposite.closed.patterns()]
        return [*outputs, *self._announce(new)]

    def _named(self, pattern: Pattern, own: WindowState, opposite: WindowState) -> list[Value]:
        """Return the values to close one by one."""
        match pattern:
            case Equals(value):
                return [value]
            case OneOf(values):
                return sorted(values, key=self._domain.below)
            case _:
                return list(dict.fromkeys([*own.index, *opposite.index]))

    def _close_value(self, key: Value, own: WindowState, opposite: WindowState) -> list[Output]:
        theirs = opposite.purge(key)
        if opposite.closed.contains(key):
            regular = theirs is not None and theirs.flag is Flag.PUNCTUATED
            return self._emit([Equals(key)]) if regular else self._announce([Equals(key)])
        self._settled.add(Equals(key))
        if key in own.index:
            own.index[key].flag = Flag.PUNCTUATED
        elif self._strict:
            own.add(key, Flag.PUNCTUATED)
        else:
            own.add(key, Flag.PROPAGATED)
            return self._emit([Equals(key)])
        return []

    def _invalidate(self, state: WindowState, now: float) -> list[Output]:
        return self._emit(Equals(key) for key in state.invalidate(now))

    def _announce(self, patterns: Iterable[Pattern]) -> list[Output]:
        """Announce those parts of the patterns that are not yet settled."""
        return self._emit(fresh for pattern in patterns for fresh in self._settled.add(pattern))

    def _emit(self, patterns: Iterable[Pattern]) -> list[Output]:
        outputs: list[Output] = [Announced(pattern) for pattern in patterns]
        self.counters.announced += len(outputs)
        return outputs
