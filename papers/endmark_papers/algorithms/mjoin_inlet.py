"""One input of MJoin, up to the processing of its rows: the queue, waiting pool and punctuated range."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable
from typing import cast

from endmark.punctuation.algebra import meet
from endmark.punctuation.pattern import Anything, Between, Domain, Equals, Nothing, Pattern, Value
from endmark.punctuation.ranges import Ranges
from endmark_papers.algorithms.contract import Closing, Element, Row
from endmark_papers.algorithms.mjoin_options import Arrival


class Inlet:
    """One side's queue, and the rows that were retrieved from it but are not yet processed.

    A punctuation is about the rows behind it in the queue, so a row is checked when it is retrieved. Rows in
    the pool were ahead of the punctuation, however late they are processed.

    Args:
        arrival: the declared order of keys.
        domain: the type of the keys.
    """

    def __init__(self, arrival: Arrival, domain: Domain) -> None:
        self.queue: deque[Element] = deque()
        self.pool: deque[Row] = deque()
        """The waiting pool: rows retrieved while other rows were preferred."""
        self.unprocessed: Counter[Hashable] = Counter()
        """The number of rows in the pool or being processed, by key; no entry is 0."""
        self._closed = Ranges(domain)
        self._wanted: list[Pattern] = []
        self._arrival = arrival
        self._current: Value | None = None

    def has_closed(self, key: Hashable) -> bool:
        return self._closed.contains(cast("Value", key))

    def spent(self, key: Hashable) -> bool:
        """Return whether no row of a key will be processed any more."""
        return key not in self.unprocessed and self.has_closed(key)

    def admit(self, row: Row) -> list[Pattern]:
        """Count a row as retrieved; return the patterns that its arrival closes by the declared order.

        The row must not be a violation.
        """
        self.unprocessed[row.key] += 1
        key = cast("Value", row.key)
        if key == self._current:
            return []
        before, self._current = self._current, key
        match self._arrival:
            case Arrival.CLUSTERED if before is not None:
                return [Equals(before)]
            case Arrival.ASCENDING:
                return [Between(None, key, high_open=True)]
            case Arrival.DESCENDING:
                return [Between(key, None, low_open=True)]
        return []

    def processed(self, row: Row) -> None:
        self.unprocessed[row.key] -= 1
        if not self.unprocessed[row.key]:
            del self.unprocessed[row.key]

    def close(self, pattern: Pattern) -> list[Pattern]:
        """Add a pattern to the punctuated range; return what is new, as disjoint patterns in normal form.

        For `Anything` the new part has no null, since a null joins nothing.
        """
        if isinstance(pattern, Anything):
            new = self._closed.add(Between())
            self._closed.add(pattern)
        else:
            new = self._closed.add(pattern)
        self._wanted = [wanted for wanted in self._wanted if self.closed_part(wanted) != [wanted]]
        return new

    def closed_part(self, pattern: Pattern) -> list[Pattern]:
        """Return the part of a pattern that this side has closed, as disjoint patterns in normal form."""
        if isinstance(pattern, Equals):
            return [pattern] if self.has_closed(pattern.value) else []
        parts = (meet(pattern, closed, self._closed.domain) for closed in self._closed.patterns())
        return [part for part in parts if part != Nothing()]

    def want(self, patterns: list[Pattern]) -> None:
        """Prefer rows that match these patterns, until this side has closed them, too, and none can come."""
        self._wanted += [pattern for pattern in patterns if self.closed_part(pattern) != [pattern]]

    def want_nothing(self) -> None:
        """Prefer no rows any more, so that they are processed in sequence."""
        self._wanted.clear()

    @property
    def sequential(self) -> bool:
        """True if no preferred row may be in the queue, so that rows in the pool need not wait."""
        return not (self._wanted and self.queue)

    def prefers(self, row: Row) -> bool:
        """Return whether to process a row when it is retrieved, rather than to put it into the pool."""
        key = cast("Value", row.key)
        return not self._wanted or any(pattern.matches(key) for pattern in self._wanted)

    def continues(self, row: Row) -> bool:
        """Return whether the next object belongs to the cluster of this row."""
        if self._arrival is Arrival.ANY or not self.queue:
            return False
        head = self.queue[0]
        return not isinstance(head, Closing) and head.key == row.key
