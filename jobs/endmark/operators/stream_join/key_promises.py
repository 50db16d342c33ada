"""Key promises: the patterns on key columns by which a side closes keys, such as `order_id <= 100`.

A promise holds for its own partition alone, and a pattern does not say in which partitions its keys live. So
patterns close a key when every partition of the stream has promised it.

If the key has one column, the union of the patterns is kept. So a stream whose promises grow, such as
`order_id <= 100` and then `order_id <= 200`, needs the space of one interval. If the key has several columns,
a pattern is kept until a later one includes it.

A row with a promised key breaks a promise. If the key has one column, it is the interval of the union that
has the row's key, with the offset of the pattern that last widened it. If the key has several columns, it is
the newest pattern that matches the row's key.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from endmark.punctuation.algebra import common
from endmark.punctuation.boxes import Boxes
from endmark.punctuation.columns import contains_all, domain_of_type, matches
from endmark.punctuation.pattern import Anything, Equals
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.punctuation.ranges import Ranges
from endmark.punctuation.wire_json import pattern_from_json, pattern_to_json

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    import pyarrow as pa

    from endmark.domain import Cut, Domain, Value
    from endmark.punctuation.algebra import Span
    from endmark.punctuation.pattern import Pattern
    from endmark.state.keys import Keys, KeySpec
    from endmark.state.search import Bools, Ints
    from endmark.state.segment import Segment

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


class Interval:
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
            name: Interval(stream, partition, name, domain) for name, domain in domains.items()
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


class Spans:
    """Spans of keys, for a key that is its own code."""

    def __init__(self, spans: Iterable[Span]) -> None:
        ends = list(spans)
        self._lows = np.array([low for low, _ in ends], np.int64)
        self._lasts = np.array([high - 1 for _, high in ends], np.int64)  # the highest cut exceeds int64

    def contain(self, codes: Ints) -> Bools:
        """Return a mask of the codes that are inside a span."""
        if not len(self._lows):
            return np.zeros(len(codes), bool)
        at = np.searchsorted(self._lows, codes, "right") - 1
        inside: Bools = (at >= 0) & (codes <= self._lasts[at])
        return inside

    def positions(self, codes: Ints) -> Ints:
        """Return the positions of codes that are inside a span. It bisects, so codes must be sorted."""
        first = np.searchsorted(codes, self._lows)
        behind = np.searchsorted(codes, self._lasts, "right")
        pieces = [np.arange(low, high) for low, high in zip(first, behind, strict=True) if low < high]
        return np.concatenate(pieces) if pieces else np.empty(0, np.int64)

    def holding(self, firsts: Ints, lasts: Ints) -> Ints:
        """Return the positions of ranges that lie in one span.

        Args:
            firsts, lasts: the codes of the first and of the last key of each range.
        """
        if not len(self._lows):
            return np.empty(0, np.int64)
        at = np.searchsorted(self._lows, firsts, "right") - 1
        return np.flatnonzero((at >= 0) & (lasts <= self._lasts[at]))


def offset_of(promise: Punctuation) -> int:
    """Return the offset of a promise; `UNKNOWN` for a promise without an origin."""
    return UNKNOWN if promise.origin is None else promise.origin.offset


class KeyPromises:
    """The patterns by which one side closes keys, for each of its partitions.

    Args:
        stream: the name of the side's stream.
        key: the key, by the names that both sides share.
        types: the types of the key's columns.
        partitions: the number of partitions that must have promised a key before it is closed.
    """

    def __init__(self, stream: str, key: KeySpec, types: Sequence[pa.DataType], partitions: int) -> None:
        self._stream = stream
        self._key = key
        self._types = types
        self._partitions = partitions
        self._by_partition: dict[int, KeySet] = {}
        self._before: Spans | None = None  # the spans of keys that were closed before `add` was last called

    @cached_property
    def _domains(self) -> dict[str, Domain]:
        return dict(zip(self._key.columns, map(domain_of_type, self._types), strict=True))

    def add(self, promises: Iterable[Punctuation]) -> None:
        """Remember promises, each of which has an origin."""
        self._before = self._everywhere
        for promise in promises:
            partition = promise.place.partition
            if partition not in self._by_partition:
                self._by_partition[partition] = self._nothing(partition)
            self._by_partition[partition].add(promise)
            vars(self).pop("_everywhere", None)

    def _nothing(self, partition: int) -> KeySet:
        if len(self._domains) == 1:
            ((name, domain),) = self._domains.items()
            return Interval(self._stream, partition, name, domain)
        return KeyBoxes(self._stream, partition, self._domains)

    def promised_by(self, keys: Keys, partitions: Ints) -> Bools:
        """Return a mask of the rows whose key their own partition has promised."""
        found = np.zeros(len(keys), bool)
        for partition, key_set in self._by_partition.items():
            own = partitions == partition
            if own.any():
                found |= own & key_set.match(keys)
        return found

    def broken_within(
        self, promises: Iterable[Punctuation], keys: Keys, partitions: Ints, offsets: Ints
    ) -> Bools:
        """Return a mask of the rows that stand behind a promise in its partition and match it.

        Args:
            promises: promises of the rows' own batch.
            keys: the keys of the rows.
            partitions, offsets: the places of the rows.
        """
        found = np.zeros(len(keys), bool)
        for promise in promises:
            partition, offset = promise.place
            behind = (partitions == partition) & (offsets > offset)
            if behind.any():
                key_set = self._nothing(partition)
                key_set.add(promise)
                found |= behind & key_set.match(keys)
        return found

    def broken_promises(
        self, promises: Iterable[Punctuation], keys: Keys, partitions: Ints, offsets: Ints
    ) -> list[Punctuation | None]:
        """Return the promise that each row breaks, in normal form; `None` for a row that breaks none.

        It goes row by row, since few rows break any.

        Args:
            promises: promises of the rows' own batch. Each counts for the rows behind it.
            keys: the keys of the rows.
            partitions, offsets: the places of the rows.
        """
        found: list[Punctuation | None] = [None] * len(keys)
        for partition in np.unique(partitions).tolist():
            coming = [promise for promise in promises if promise.place.partition == partition]
            coming.sort(key=offset_of, reverse=True)
            key_set = deepcopy(self._by_partition.get(partition)) or self._nothing(partition)
            own = np.flatnonzero(partitions == partition)
            for at in own[np.argsort(offsets[own])].tolist():
                while coming and offset_of(coming[-1]) < offsets[at]:
                    key_set.add(coming.pop())
                found[at] = key_set.broken_by(keys, at)
        return found

    def naming(self, key: Sequence[Value], partition: int, offset: int) -> Punctuation:
        """Return a promise that names one key, in normal form.

        Args:
            key: the values of the key's columns.
            partition, offset: the place of the promise.
        """
        patterns = {name: Equals(value) for name, value in zip(self._domains, key, strict=True)}
        return Punctuation.of(self._stream, patterns, Origin(partition, offset)).normal(self._domains)

    def contain(self, keys: Keys) -> Bools:
        """Return a mask of the keys that every partition has promised."""
        if len(self._by_partition) < self._partitions:
            return np.zeros(len(keys), bool)
        if self._everywhere is not None:
            return self._everywhere.contain(keys.codes)
        everywhere: Bools = self.count(keys) == len(self._by_partition)
        return everywhere

    def count(self, keys: Keys, among: Container[int] | None = None) -> Ints:
        """Count the partitions that have promised each key.

        Args:
            keys: the keys.
            among: the partitions that count; `None`: all of them.
        """
        found = np.zeros(len(keys), np.int64)
        for partition, key_set in self._by_partition.items():
            if among is None or partition in among:
                found += key_set.match(keys)
        return found

    def places(self, keys: Keys) -> dict[int, int]:
        """Return the partitions that have promised one key, each with the offset of its promise."""
        found = {partition: key_set.broken_by(keys, 0) for partition, key_set in self._by_partition.items()}
        return {partition: offset_of(promise) for partition, promise in found.items() if promise is not None}

    def positions(self, segment: Segment) -> Ints:
        """Return the positions of a segment's rows, dead or alive, whose key every partition has promised."""
        if self._everywhere is not None:
            return self._everywhere.positions(segment.keys.codes)
        return np.flatnonzero(self.contain(segment.keys))

    def added_positions(self, segment: Segment) -> Ints:
        """Return those of `positions` whose key the last promises have closed.

        If the key is hashed, the positions of keys that were closed before may be among them.
        """
        positions = self.positions(segment)
        if self._before is None:
            return positions
        added = np.zeros(segment.rows, bool)
        added[positions] = True
        added[self._before.positions(segment.keys.codes)] = False
        return np.flatnonzero(added)

    def positions_of_ranges(self, firsts: Ints, lasts: Ints) -> Ints:
        """Return the positions of ranges whose keys every partition has promised. The key is its own code.

        Args:
            firsts, lasts: the codes of the first and of the last key of each range.
        """
        return np.empty(0, np.int64) if self._everywhere is None else self._everywhere.holding(firsts, lasts)

    @cached_property
    def _everywhere(self) -> Spans | None:
        """The spans of keys that every partition has promised; `None` if the key is hashed."""
        if self._key.hashed:
            return None
        if len(self._by_partition) < self._partitions:
            return Spans([])
        first, *others = (
            key_set.ranges for key_set in self._by_partition.values() if isinstance(key_set, Interval)
        )
        spans = list(first.spans())
        for other in others:
            spans = common(spans, list(other.spans()))
        return Spans(spans)

    def snapshot(self) -> dict[str, Any]:
        """Return the state for `restore` as JSON: the offsets and patterns of each partition's promises."""
        return {
            str(partition): [
                [
                    offset_of(promise),
                    {
                        name: pattern_to_json(pattern, self._domains[name])
                        for name, pattern in promise.patterns
                    },
                ]
                for promise in key_set.promises()
            ]
            for partition, key_set in self._by_partition.items()
        }

    def restore(self, snapshot: Mapping[str, Sequence[Any]]) -> None:
        for partition, promises in snapshot.items():
            self._by_partition[int(partition)] = key_set = self._nothing(int(partition))
            for offset, written in promises:
                key_set.restore(self.read(written, Origin(int(partition), offset)))
        vars(self).pop("_everywhere", None)

    def read(self, written: Mapping[str, Any], origin: Origin) -> Punctuation:
        """Read a promise.

        Args:
            written: its patterns in JSON, by key column.
            origin: its place.
        """
        return Punctuation.read(self._stream, written, self._domains, pattern_from_json, origin)
