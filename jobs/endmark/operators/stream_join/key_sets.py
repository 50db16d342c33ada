"""Key sets: the keys that one partition has promised by patterns on key columns.

If the key has one column, the union of the patterns is kept as intervals. So a stream whose promises grow,
such as `order_id <= 100` and then `order_id <= 200`, needs the space of one interval. If the key has several
columns, a pattern is kept until a later one includes it.

A row with a promised key breaks a promise. If the key has one column, it is the interval of the union that
has the row's key, with the offset of the pattern that last widened it. If the key has several columns, it is
the newest pattern that matches the row's key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from endmark.operators.stream_join.spans import Spans
from endmark.punctuation.boxes import Boxes
from endmark.punctuation.columns import contains_all, matches
from endmark.punctuation.pattern import Anything
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.punctuation.ranges import Ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from endmark.domain import Cut, Domain, Value
    from endmark.punctuation.pattern import Pattern
    from endmark.state.keys import Keys
    from endmark.state.search import Bools

# The offset of a promise whose record is not known, or that no record has made.
UNKNOWN = -1


class KeySet(Protocol):
    """The set of keys that one partition has promised."""

    def add(self, promise: Punctuation) -> None:
        """Add the keys of a promise."""
        ...

    def restore(self, promise: Punctuation) -> None:
        """Add one of the promises that another set had returned."""
        ...

    def match(self, keys: Keys) -> Bools:
        """Return a mask of the keys that are promised."""
        ...

    def broken_by(self, keys: Keys, at: int) -> Punctuation | None:
        """Return the promise that a row with the key at position `at` breaks; `None` if it breaks none."""
        ...

    def promises(self) -> Iterable[Punctuation]:
        """Return promises that make up the set."""
        ...


class KeyIntervals:
    """Promised keys of one column, as intervals.

    Args:
        stream: the name of the stream.
        partition: the partition that has promised the keys.
        name: the column of the key.
        domain: the domain of that column.
    """

    def __init__(self, stream: str, partition: int, name: str, domain: Domain) -> None:
        self._stream = stream
        self._partition = partition
        self._name = name
        self.ranges = Ranges(domain)

    def add(self, promise: Punctuation) -> None:
        self.ranges.add(dict(promise.patterns).get(self._name, Anything()), offset_of(promise))

    def restore(self, promise: Punctuation) -> None:
        self.add(promise)

    def match(self, keys: Keys) -> Bools:
        if keys.columns:
            return contains_all(self.ranges, keys.columns[0])
        return Spans(self.ranges.spans()).contain(keys.codes)

    def broken_by(self, keys: Keys, at: int) -> Punctuation | None:
        if keys.columns:
            return self.holding(keys.columns[0][at].as_py())
        return self._above(int(keys.codes[at]))

    def holding(self, value: Value) -> Punctuation | None:
        """Return the promise of the interval that holds a value; `None` if none does."""
        domain = self.ranges.domain
        return self._above(domain.below(domain.coerce(value)))

    def _above(self, cut: Cut) -> Punctuation | None:
        found = self.ranges.find(cut)
        return None if found is None else self._promise(*found)

    def promises(self) -> Iterable[Punctuation]:
        return (self._promise(*found) for found in self.ranges.dated())

    def _promise(self, pattern: Pattern, offset: int) -> Punctuation:
        return Punctuation.of(self._stream, {self._name: pattern}, Origin(self._partition, offset))


class KeyBoxes:
    """Promised keys of several columns: intervals of each column, and patterns on several columns.

    A pattern on several columns is dropped when a later one or the intervals of one column include it.

    Args:
        stream: the name of the stream.
        partition: the partition that has promised the keys.
        domains: the domains of the columns.
    """

    def __init__(self, stream: str, partition: int, domains: Mapping[str, Domain]) -> None:
        self._domains = domains
        self._intervals = {
            name: KeyIntervals(stream, partition, name, domain) for name, domain in domains.items()
        }
        self._boxes = Boxes(domains)

    def add(self, promise: Punctuation) -> None:
        box = promise.normal(self._domains)
        if len(box.patterns) == 1:
            self._intervals[box.names()[0]].add(box)
            self._boxes.remove_where(self._is_in_interval)
        elif not self._is_in_interval(box):
            self._boxes.add(box)

    def _is_in_interval(self, box: Punctuation) -> bool:
        return any(self._intervals[name].ranges.includes(pattern) for name, pattern in box.patterns)

    def restore(self, promise: Punctuation) -> None:
        if len(promise.patterns) == 1:
            self._intervals[promise.names()[0]].restore(promise)
        else:
            self._boxes.restore(promise)

    def match(self, keys: Keys) -> Bools:
        columns = dict(zip(self._domains, keys.columns, strict=True))
        inside = np.zeros(len(keys), bool)
        for name, interval in self._intervals.items():
            if len(interval.ranges):
                inside |= contains_all(interval.ranges, columns[name])
        for box in self._boxes:
            mask = np.ones(len(keys), bool)
            for name, pattern in box.patterns:
                mask &= matches(pattern, columns[name])
            inside |= mask
        return inside

    def broken_by(self, keys: Keys, at: int) -> Punctuation | None:
        row = {name: column[at].as_py() for name, column in zip(self._domains, keys.columns, strict=True)}
        found = [interval.holding(row[name]) for name, interval in self._intervals.items()]
        found.append(next((box for box in reversed(self._boxes) if box.matches(row)), None))
        return max((promise for promise in found if promise is not None), key=offset_of, default=None)

    def promises(self) -> Iterable[Punctuation]:
        for interval in self._intervals.values():
            yield from interval.promises()
        yield from self._boxes


def offset_of(promise: Punctuation) -> int:
    """Return the offset of a promise; `UNKNOWN` for a promise without an origin."""
    return UNKNOWN if promise.origin is None else promise.origin.offset
