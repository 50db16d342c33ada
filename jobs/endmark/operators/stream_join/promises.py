"""Promises of a stream's partitions on any of its columns, for violations and for announcements.

A promise on a column beside the key is a *wider* promise, such as `seller_id = 7` on a stream that is joined
by `item_id`. It closes no key, so it purges nothing. But it rules out rows of its partition. Once every
partition has promised it, no matching row comes at all.

The union of the patterns on one column is kept. So a stream whose promises grow needs the space of one
interval. A pattern on several columns is kept until a later one includes it.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from endmark.punctuation.boxes import Boxes
from endmark.punctuation.columns import contains_all, matches
from endmark.punctuation.pattern import Nothing
from endmark.punctuation.punctuation import Punctuation
from endmark.punctuation.ranges import Ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from endmark.domain import Domain
    from endmark.operators.promise_codec import PromiseCodec
    from endmark.state.keys import KeySpec
    from endmark.state.search import Bools, Ints


class PromiseUnion:
    """Some promises of one stream, such as those of one partition.

    Args:
        domains: the domains of the columns that the promises restrict.
    """

    def __init__(self, domains: Mapping[str, Domain]) -> None:
        self._domains = domains
        self.ranges: dict[str, Ranges] = {}
        self.boxes = Boxes(domains)

    def add(self, promise: Punctuation) -> None:
        if len(promise.patterns) == 1:
            ((name, pattern),) = promise.patterns
            self.ranges.setdefault(name, Ranges(self._domains[name])).add(pattern)
        elif not self.includes(promise):
            self.boxes.add(promise)

    def restore(self, promises: Iterable[Punctuation]) -> None:
        """Add the promises of another union, as `promises` returned them."""
        for promise in promises:
            if len(promise.patterns) == 1:
                self.add(promise)
            else:
                self.boxes.restore(promise)

    def includes(self, promise: Punctuation) -> bool:
        """Return whether the union of one column, or one promise on several columns, includes a promise."""
        for name, pattern in promise.patterns:
            if name in self.ranges and self.ranges[name].includes(pattern):
                return True
        return self.boxes.includes(promise)

    def match(self, rows: pa.RecordBatch, beside: frozenset[str] = frozenset()) -> Bools:
        """Return a mask of the rows that a promise matches, except promises on columns in `beside` alone.

        Args:
            rows: the rows.
            beside: names of columns.
        """
        found = np.zeros(rows.num_rows, bool)
        for name in self.ranges.keys() - beside:
            found |= contains_all(self.ranges[name], rows.column(name))
        for box in self.boxes:
            if not beside.issuperset(box.names()):
                found |= match(box, rows)
        return found

    def promises(self, stream: str) -> Iterator[Punctuation]:
        for name, ranges in self.ranges.items():
            for pattern in ranges.patterns():
                yield Punctuation.of(stream, {name: pattern})
        yield from self.boxes


class Promises:
    """The promises of one stream, by the names of its own columns.

    Args:
        codec: reads and writes the stream's promises.
        key: the key of the stream's rows.
        partitions: the number of partitions that must have promised a pattern before it is complete.
    """

    def __init__(self, codec: PromiseCodec, key: KeySpec, partitions: int) -> None:
        self._codec = codec
        self._key = frozenset(key.columns)
        self._partitions = partitions
        self._by_partition: dict[int, PromiseUnion] = {}
        self._unannounced: dict[tuple[Any, ...], Punctuation] = {}

    def add(self, promises: Iterable[Punctuation]) -> None:
        """Remember promises, each of which has an origin.

        A pattern is to be announced if it has values that its partition had not promised before.
        """
        for promise in sorted(promises, key=attrgetter("coordinates")):
            plain = Punctuation.of(promise.stream, dict(promise.normal(self._codec.domains).patterns))
            if any(isinstance(pattern, Nothing) for _, pattern in plain.patterns):
                continue
            union = self._by_partition.setdefault(
                promise.coordinates.partition, PromiseUnion(self._codec.domains)
            )
            if not union.includes(plain):
                union.add(plain)
                self._unannounced[plain.patterns] = plain

    def broken(self, rows: pa.RecordBatch, partitions: Ints) -> Bools:
        """Return a mask of the rows that a wider promise of their own partition matches."""
        found = np.zeros(rows.num_rows, bool)
        for partition, union in self._by_partition.items():
            own = partitions == partition
            if own.any():
                found |= own & union.match(rows, self._key)
        return found

    def broken_within(
        self, promises: Iterable[Punctuation], rows: pa.RecordBatch, partitions: Ints, offsets: Ints
    ) -> Bools:
        """Return a mask of the rows that stand behind a promise in its partition and match it.

        Args:
            promises: promises of the rows' own batch.
            rows: the rows.
            partitions, offsets: the coordinates of the rows.
        """
        found = np.zeros(rows.num_rows, bool)
        for promise in promises:
            origin = promise.coordinates
            behind = (partitions == origin.partition) & (offsets > origin.offset)
            if behind.any():
                found |= behind & match(promise, rows)
        return found

    def complete(self) -> list[Punctuation]:
        """Return the patterns that every partition has promised, and that are not announced yet."""
        if len(self._by_partition) < self._partitions:
            return []
        return [
            promise
            for promise in self._unannounced.values()
            if all(union.includes(promise) for union in self._by_partition.values())
        ]

    def announce(self, promise: Punctuation) -> None:
        """Mark a pattern that `complete` has returned as announced. It is never announced again."""
        del self._unannounced[promise.patterns]

    def announce_nothing(self) -> None:
        """Drop the patterns that are not announced yet."""
        self._unannounced.clear()

    def snapshot(self) -> dict[str, Any]:
        """Return the state for `restore`, ready for JSON."""
        by_partition = {
            str(partition): [self._codec.write_patterns(one) for one in union.promises(self._codec.stream)]
            for partition, union in self._by_partition.items()
        }
        return {
            "by_partition": by_partition,
            "unannounced": list(map(self._codec.write_patterns, self._unannounced.values())),
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        for partition, promises in snapshot["by_partition"].items():
            self._by_partition[int(partition)] = union = PromiseUnion(self._codec.domains)
            union.restore(map(self._codec.read_patterns, promises))
        unannounced = map(self._codec.read_patterns, snapshot["unannounced"])
        self._unannounced = {promise.patterns: promise for promise in unannounced}


def match(promise: Punctuation, rows: pa.RecordBatch) -> Bools:
    """Return a mask of the rows that a promise matches."""
    found = np.ones(rows.num_rows, bool)
    for name, pattern in promise.patterns:
        found &= matches(pattern, rows.column(name))
    return found
