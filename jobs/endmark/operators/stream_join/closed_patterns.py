"""The patterns on key columns by which a side has closed keys, such as `order_id <= 100`.

A promise speaks for its own partition. One that names a key closes it at once, since a key lives in one
partition; a pattern does not say where the keys it matches live, so those are closed that every partition of
the stream has closed. What a partition has closed is told in `closed`.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from endmark.operators.stream_join.closed_keys import Boxes, Interval, Spans, offset_of
from endmark.punctuation.algebra import common
from endmark.punctuation.columns import domain_of_type
from endmark.punctuation.pattern import Equals
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.punctuation.wire_json import pattern_from_json, pattern_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from endmark.operators.stream_join.closed_keys import Closed
    from endmark.punctuation.domain import Domain, Value
    from endmark.state.keys import Keys, KeySpec
    from endmark.state.search import Bools, Ints
    from endmark.state.segment import Segment


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
        self._closed: dict[int, Closed] = {}

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

    def _nothing(self, partition: int) -> Closed:
        if len(self._domains) == 1:
            ((name, domain),) = self._domains.items()
            return Interval(self._stream, partition, name, domain)
        return Boxes(self._domains)

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
            coming.sort(key=offset_of, reverse=True)
            closed = deepcopy(self._closed.get(partition)) or self._nothing(partition)
            own = np.flatnonzero(partitions == partition)
            for at in own[np.argsort(offsets[own])].tolist():
                while coming and offset_of(coming[-1]) < offsets[at]:
                    closed.add(coming.pop())
                found[at] = closed.broken_by(keys, at)
        return found

    def naming(self, key: Sequence[Value], partition: int, offset: int) -> Punctuation:
        """The promise that names a key."""
        patterns = {name: Equals(value) for name, value in zip(self._domains, key, strict=True)}
        return Punctuation.of(self._stream, patterns, Origin(partition, offset)).normal(self._domains)

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
    def _everywhere(self) -> Spans | None:
        """The spans of keys that every partition has closed, where codes are ordinals."""
        if self._key.hashed:
            return None
        if len(self._closed) < self._partitions:
            return Spans([])
        first, *others = (closed.ranges for closed in self._closed.values() if isinstance(closed, Interval))
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
                for promise in closed.promises()
            ]
            for partition, closed in self._closed.items()
        }

    def restore(self, snapshot: Mapping[str, Sequence[Any]]) -> None:
        for partition, promises in snapshot.items():
            self._closed[int(partition)] = self._nothing(int(partition))
            for offset, written in promises:
                self.add([self.read(written, Origin(int(partition), offset))])

    def read(self, written: Mapping[str, Any], origin: Origin) -> Punctuation:
        """A promise from its patterns in JSON by key column."""
        return Punctuation.read(self._stream, written, self._domains, pattern_from_json, origin)
