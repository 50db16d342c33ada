"""One input of MJoin up to where its rows are processed: queue, waiting pool, punctuated range."""

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
    """The queue, and what has been retrieved from it but not yet processed.

    A promise speaks of what is behind it in the queue, so rows are judged when they are retrieved. Rows in
    the pool were ahead of it, however late they are processed.

    Args:
        arrival: the declared order of keys.
        domain: of the keys.
    """

    def __init__(self, arrival: Arrival, domain: Domain) -> None:
        self.queue: deque[Element] = deque()
        self.pool: deque[Row] = deque()
        """Rows retrieved while others were preferred."""
        self.unprocessed: Counter[Hashable] = Counter()
        """Rows in the pool or being processed, by key; no entry is 0."""
        self._closed = Ranges(domain)
        self._wanted: list[Pattern] = []
        self._arrival = arrival
        self._current: Value | None = None

    def has_closed(self, key: Hashable) -> bool:
        return self._closed.contains(cast("Value", key))

    def spent(self, key: Hashable) -> bool:
        """No row of this key will be processed any more."""
        return key not in self.unprocessed and self.has_closed(key)

    def admit(self, row: Row) -> list[Pattern]:
        """A row that is no violation was retrieved; what its arrival closes by the declared order."""
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
        """Add to the punctuated range; what is new of it, as disjoint patterns in normal form.

        `Anything` counts as all values, of which part may have been closed before: a null joins nothing.
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
        """Schedule by value, until the stream has closed all of these too: then none of it is to come."""
        self._wanted += [pattern for pattern in patterns if self.closed_part(pattern) != [pattern]]

    def want_nothing(self) -> None:
        """Schedule in sequence."""
        self._wanted.clear()

    @property
    def sequential(self) -> bool:
        """True if rows in the pool have nothing to wait for."""
        return not (self._wanted and self.queue)

    def prefers(self, row: Row) -> bool:
        """Return whether a row is processed when it is retrieved rather than put into the pool."""
        key = cast("Value", row.key)
        return not self._wanted or any(pattern.matches(key) for pattern in self._wanted)

    def continues(self, row: Row) -> bool:
        """Return whether the next object belongs to the cluster of this row."""
        if self._arrival is Arrival.ANY or not self.queue:
            return False
        head = self.queue[0]
        return not isinstance(head, Closing) and head.key == row.key
