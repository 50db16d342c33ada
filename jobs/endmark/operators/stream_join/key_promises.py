"""Key promises: the patterns on key columns by which a side closes keys, such as `order_id <= 100`.

A promise speaks for its own partition alone, and a pattern does not say in which partitions its keys live. So
a pattern closes the keys that every partition of the stream has promised. `key_sets` holds the keys of one
partition.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from endmark.operators.stream_join.key_sets import Boxes, Interval, Spans, offset_of
from endmark.punctuation.algebra import common
from endmark.punctuation.columns import domain_of_type
from endmark.punctuation.pattern import Equals
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.punctuation.wire_json import pattern_from_json, pattern_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from endmark.domain import Domain, Value
    from endmark.operators.stream_join.key_sets import Closed
    from endmark.state.keys import Keys, KeySpec
    from endmark.state.search import Bools, Ints
    from endmark.state.segment import Segment


class KeyPromises:
    """The patterns by which one side closes keys, for each of its partitions.

    Args:
        stream: the name of the side's stream.
        key: the key, by the names that both sides share.
        types: the types of the key's columns.
        partitions: how many partitions must have promised a key before it is closed.
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
        """Remember promises, each of which has an origin."""
        for promise in promises:
            partition = promise.place.partition
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
        """Return a mask of the rows whose key their own partition has promised."""
        found = np.zeros(len(keys), bool)
        for partition, closed in self._closed.items():
            own = partitions == partition
            if own.any():
                found |= own & closed.match(keys)
        return found

    def closed_before(
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
                closed = self._nothing(partition)
                closed.add(promise)
                found |= behind & closed.match(keys)
        return found

    def broken(
        self, promises: Iterable[Punctuation], keys: Keys, partitions: Ints, offsets: Ints
    ) -> list[Punctuation | None]:
        """Return the promise that each row breaks, in normal form; `None` for a row that breaks none.

        It goes row by row, since few rows break any.

        Args:
            promises: promises of the rows' own batch, which count for the rows behind them.
            keys: the keys of the rows.
            partitions, offsets: the places of the rows.
        """
        found: list[Punctuation | None] = [None] * len(keys)
        for partition in np.unique(partitions).tolist():
            coming = [promise for promise in promises if promise.place.partition == partition]
            coming.sort(key=offset_of, reverse=True)
            closed = deepcopy(self._closed.get(partition)) or self._nothing(partition)
            own = np.flatnonzero(partitions == partition)
            for at in own[np.argsort(offsets[own])].tolist():
                while coming and offset_of(coming[-1]) < offsets[at]:
                    closed.add(coming.pop())
                found[at] = closed.broken_by(keys, at)
        return found

    def naming(self, key: Sequence[Value], partition: int, offset: int) -> Punctuation:
        """Return a promise that names one key, in normal form.

        Args:
            key: the values of its columns.
            partition, offset: the place of the promise.
        """
        patterns = {name: Equals(value) for name, value in zip(self._domains, key, strict=True)}
        return Punctuation.of(self._stream, patterns, Origin(partition, offset)).normal(self._domains)

    def contain(self, keys: Keys) -> Bools:
        """Return a mask of the keys that every partition has promised."""
        if len(self._closed) < self._partitions:
            return np.zeros(len(keys), bool)
        if self._everywhere is not None:
            return self._everywhere.contain(keys.codes)
        everywhere: Bools = self.count(keys) == len(self._closed)
        return everywhere

    def count(self, keys: Keys) -> Ints:
        """Count the partitions that have promised each key."""
        found = np.zeros(len(keys), np.int64)
        for closed in self._closed.values():
            found += closed.match(keys)
        return found

    def positions(self, segment: Segment) -> Ints:
        """Return the positions of a segment's rows, dead or alive, whose key every partition has promised."""
        if self._everywhere is not None:
            return self._everywhere.positions(segment.keys.codes)
        return np.flatnonzero(self.contain(segment.keys))

    @cached_property
    def _everywhere(self) -> Spans | None:
        """The spans of keys that every partition has promised; `None` if codes of keys are hashes."""
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
        """Read a promise, given its patterns in JSON by key column."""
        return Punctuation.read(self._stream, written, self._domains, pattern_from_json, origin)
