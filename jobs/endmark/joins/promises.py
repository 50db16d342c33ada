"""What a side has closed beyond single keys: patterns on its key columns, such as `order_id <= 100`.

A promise speaks for its own partition. One that names a key closes it at once, since a key lives in one
partition; a pattern does not say where the keys it matches live, so those are closed that every partition of
the stream has closed. Of one column the union of patterns is kept, so that closing ever more of it takes the
space of one interval; of several columns, the patterns that no later one includes.
The promise that a row breaks is the interval of that union it is in, as of the pattern that last widened it,
or the newest pattern on several columns that matches it.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from endmark.punctuation.algebra import common
from endmark.punctuation.columns import contains_all, domain_of_type, matches
from endmark.punctuation.pattern import Anything, Equals
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.punctuation.ranges import Ranges
from endmark.punctuation.wire_json import pattern_from_json, pattern_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from endmark.punctuation.algebra import Span
    from endmark.punctuation.domain import Domain, Value
    from endmark.punctuation.pattern import Pattern
    from endmark.state.keys import Keys, KeySpec
    from endmark.state.search import Bools, Ints
    from endmark.state.segment import Segment


# Offset of a promise that an earlier version kept without it.
UNKNOWN = -1


class _Closed(Protocol):
    """The keys that one partition has closed."""

    def add(self, promise: Punctuation) -> None: ...
    def match(self, keys: Keys) -> Bools: ...
    def broken_by(self, keys: Keys, at: int) -> Punctuation | None: ...
    def promises(self) -> Iterable[Punctuation]: ...


class _Interval:
    """Of a key of one column."""

    def __init__(self, stream: str, partition: int, name: str, domain: Domain) -> None:
        self._stream = stream
        self._partition = partition
        self._name = name
        self.ranges = Ranges(domain)

    def add(self, promise: Punctuation) -> None:
        offset = UNKNOWN if promise.origin is None else promise.origin.offset
        self.ranges.add(dict(promise.patterns).get(self._name, Anything()), offset)

    def match(self, keys: Keys) -> Bools:
        if keys.columns:
            return contains_all(self.ranges, keys.columns[0])
        return _Spans(self.ranges.spans()).contain(keys.codes)

    def broken_by(self, keys: Keys, at: int) -> Punctuation | None:
        domain = self.ranges.domain
        cut = (
            domain.below(domain.coerce(keys.columns[0][at].as_py())) if keys.columns else int(keys.codes[at])
        )
        found = self.ranges.find(cut)
        return None if found is None else self._as_of(*found)

    def promises(self) -> Iterable[Punctuation]:
        return (self._as_of(*found) for found in self.ranges.dated())

    def _as_of(self, pattern: Pattern, offset: int) -> Punctuation:
        return Punctuation.of(self._stream, {self._name: pattern}, Origin(self._partition, offset))


class _Boxes:
    """Of a key of several columns."""

    def __init__(self, domains: Mapping[str, Domain]) -> None:
        self._domains = domains
        self._boxes: list[Punctuation] = []

    def add(self, promise: Punctuation) -> None:
        self._boxes = [box for box in self._boxes if not box.implies(promise, self._domains)]
        self._boxes.append(promise)

    def match(self, keys: Keys) -> Bools:
        columns = dict(zip(self._domains, keys.columns, strict=True))
        inside = np.zeros(len(keys), bool)
        for box in self._boxes:
            mask = np.ones(len(keys), bool)
            for name, pattern in box.patterns:
                mask &= matches(pattern, columns[name])
            inside |= mask
        return inside

    def broken_by(self, keys: Keys, at: int) -> Punctuation | None:
        row = {name: column[at].as_py() for name, column in zip(self._domains, keys.columns, strict=True)}
        found = next((box for box in reversed(self._boxes) if box.matches(row)), None)
        return None if found is None else found.normal(self._domains)

    def promises(self) -> Iterable[Punctuation]:
        return self._boxes


class _Spans:
    """Spans of a discrete domain, whose ordinals are the codes of keys."""

    def __init__(self, spans: Iterable[Span]) -> None:
        ends = list(spans)
        self._lows = np.array([low for low, _ in ends], np.int64)
        self._lasts = np.array([high - 1 for _, high in ends], np.int64)  # the top cut of longs is no int64

    def contain(self, codes: Ints) -> Bools:
        if not len(self._lows):
            return np.zeros(len(codes), bool)
        at = np.searchsorted(self._lows, codes, "right") - 1
        inside: Bools = (at >= 0) & (codes <= self._lasts[at])
        return inside

    def positions(self, codes: Ints) -> Ints:
        """Where sorted codes are inside, by bisection."""
        first = np.searchsorted(codes, self._lows)
        behind = np.searchsorted(codes, self._lasts, "right")
        pieces = [np.arange(low, high) for low, high in zip(first, behind, strict=True) if low < high]
        return np.concatenate(pieces) if pieces else np.empty(0, np.int64)


class Promises:
    """The patterns of one side, by partition.

    Args:
        stream: its name.
        key: its key, by the names that both sides share.
        types: of the key columns.
        partitions: how many partitions must have closed a key.
    """

    def __init__(self, stream: str, key: KeySpec, types: Sequence[pa.DataType], partitions: int) -> None:
        self._stream = stream
        self._key = key
        self._types = types
        self._partitions = partitions
        self._closed: dict[int, _Closed] = {}

    @cached_property
    def _domains(self) -> dict[str, Domain]:
        return dict(zip(self._key.columns, map(domain_of_type, self._types), strict=True))

    def __bool__(self) -> bool:
        return bool(self._closed)

    def add(self, promises: Iterable[Punctuation]) -> None:
        """Remember promises; each has its origin."""
        for promise in promises:
            if promise.origin is None:
                raise ValueError(f"{promise} is of no partition")
            partition = promise.origin.partition
            if partition not in self._closed:
                self._closed[partition] = self._nothing(partition)
            self._closed[partition].add(promise)
            vars(self).pop("_everywhere", None)

    def _nothing(self, partition: int) -> _Closed:
        if len(self._domains) == 1:
            ((name, domain),) = self._domains.items()
            return _Interval(self._stream, partition, name, domain)
        return _Boxes(self._domains)

    def closed_by(self, keys: Keys, partitions: Ints) -> Bools:
        """Which rows of these keys and partitions their own partition has closed."""
        found = np.zeros(len(keys), bool)
        for partition, closed in self._closed.items():
            own = partitions == partition
            if own.any():
                found |= own & closed.match(keys)
        return found

    def closed_before(
        self, promises: Iterable[Punctuation], keys: Keys, partitions: Ints, offsets: Ints
    ) -> Bools:
        """Which rows stand behind one of these promises in its partition, and match it."""
        found = np.zeros(len(keys), bool)
        for promise in promises:
            partition, offset = promise.origin or Origin(-1, -1)
            behind = (partitions == partition) & (offsets > offset)
            if behind.any():
                closed = self._nothing(partition)
                closed.add(promise)
                found |= behind & closed.match(keys)
        return found

    def broken(
        self, promises: Iterable[Punctuation], keys: Keys, partitions: Ints, offsets: Ints
    ) -> list[Punctuation | None]:
        """The promise that each row breaks, by then or with those of `promises` before it; its patterns are
        in normal form. A row at a time, since few rows break any."""
        found: list[Punctuation | None] = [None] * len(keys)
        for partition in np.unique(partitions).tolist():
            coming = [
                promise for promise in promises if promise.origin and promise.origin.partition == partition
            ]
            coming.sort(key=_offset, reverse=True)
            closed = deepcopy(self._closed.get(partition)) or self._nothing(partition)
            own = np.flatnonzero(partitions == partition)
            for at in own[np.argsort(offsets[own])].tolist():
                while coming and _offset(coming[-1]) < offsets[at]:
                    closed.add(coming.pop())
                found[at] = closed.broken_by(keys, at)
        return found

    def naming(self, key: Sequence[Value], partition: int, offset: int) -> Punctuation:
        """The promise that names a key."""
        patterns = {name: Equals(value) for name, value in zip(self._domains, key, strict=True)}
        origin = None if offset == UNKNOWN else Origin(partition, offset)
        return Punctuation.of(self._stream, patterns, origin).normal(self._domains)

    def contain(self, keys: Keys) -> Bools:
        """Which keys every partition has closed."""
        if len(self._closed) < self._partitions:
            return np.zeros(len(keys), bool)
        if self._everywhere is not None:
            return self._everywhere.contain(keys.codes)
        everywhere: Bools = self.count(keys) == len(self._closed)
        return everywhere

    def count(self, keys: Keys) -> Ints:
        """How many partitions have closed each key."""
        found = np.zeros(len(keys), np.int64)
        for closed in self._closed.values():
            found += closed.match(keys)
        return found

    def positions(self, segment: Segment) -> Ints:
        """Rows of a segment, dead ones among them, whose key every partition has closed."""
        if self._everywhere is not None:
            return self._everywhere.positions(segment.keys.codes)
        return np.flatnonzero(self.contain(segment.keys))

    @cached_property
    def _everywhere(self) -> _Spans | None:
        """What every partition has closed, where codes are ordinals."""
        if self._key.hashed:
            return None
        if len(self._closed) < self._partitions:
            return _Spans([])
        first, *others = (closed.ranges for closed in self._closed.values() if isinstance(closed, _Interval))
        spans = list(first.spans())
        for other in others:
            spans = common(spans, list(other.spans()))
        return _Spans(spans)

    def snapshot(self) -> dict[str, Any]:
        """What `restore` takes, ready for JSON: the offset and the patterns of each partition's promises."""
        return {
            str(partition): [
                [
                    _offset(promise),
                    {
                        name: pattern_to_json(pattern, self._domains[name])
                        for name, pattern in promise.patterns
                    },
                ]
                for promise in closed.promises()
            ]
            for partition, closed in self._closed.items()
        }

    def restore(self, snapshot: Mapping[str, Sequence[Any]]) -> None:
        for partition, promises in snapshot.items():
            self._closed[int(partition)] = self._nothing(int(partition))
            for kept in promises:
                offset, written = kept if isinstance(kept, list) else (UNKNOWN, kept)
                self.add([self.read(written, Origin(int(partition), offset))])

    def read(self, written: Mapping[str, Any], origin: Origin) -> Punctuation:
        """A promise from its patterns in JSON by key column."""
        return Punctuation.read(self._stream, written, self._domains, pattern_from_json, origin)


def _offset(promise: Punctuation) -> int:
    return UNKNOWN if promise.origin is None else promise.origin.offset
