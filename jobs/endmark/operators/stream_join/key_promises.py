"""Key promises: the patterns on key columns by which a side closes keys, such as `order_id <= 100`.

A promise holds for its own partition alone, and a pattern does not say in which partitions its keys live. So
patterns close a key when every partition of the stream has promised it.

`key_sets` keeps the keys that one partition has promised, and finds the promise that a row breaks.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from endmark.operators.stream_join.key_sets import KeyBoxes, KeyIntervals, offset_of
from endmark.operators.stream_join.spans import Spans
from endmark.punctuation.algebra import common
from endmark.punctuation.columns import domain_of_type
from endmark.punctuation.pattern import Equals
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.punctuation.wire_json import pattern_from_json, pattern_to_json

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    import pyarrow as pa

    from endmark.domain import Domain, Value
    from endmark.operators.stream_join.key_sets import KeySet
    from endmark.state.keys import Keys, KeySpec
    from endmark.state.search import Bools, Ints
    from endmark.state.segment import Segment


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
            partition = promise.coordinates.partition
            if partition not in self._by_partition:
                self._by_partition[partition] = self._nothing(partition)
            self._by_partition[partition].add(promise)
            vars(self).pop("_everywhere", None)

    def _nothing(self, partition: int) -> KeySet:
        if len(self._domains) == 1:
            ((name, domain),) = self._domains.items()
            return KeyIntervals(self._stream, partition, name, domain)
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
            partitions, offsets: the coordinates of the rows.
        """
        found = np.zeros(len(keys), bool)
        for promise in promises:
            partition, offset = promise.coordinates
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
            partitions, offsets: the coordinates of the rows.
        """
        found: list[Punctuation | None] = [None] * len(keys)
        for partition in np.unique(partitions).tolist():
            coming = [promise for promise in promises if promise.coordinates.partition == partition]
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
            partition, offset: the coordinates of the promise.
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

    def coordinates(self, keys: Keys) -> dict[int, int]:
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
            key_set.ranges for key_set in self._by_partition.values() if isinstance(key_set, KeyIntervals)
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
            origin: its coordinates.
        """
        return Punctuation.read(self._stream, written, self._domains, pattern_from_json, origin)
