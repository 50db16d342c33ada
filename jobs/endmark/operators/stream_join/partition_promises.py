"""The promises of a stream's partitions by patterns, on columns of the key or any others.

A promise that restricts a column beside the key is a *wider* one: it closes no key, so it purges nothing. It
rules out rows of its partition all the same, and once every partition has promised it no row that it matches
will come at all. Of one column the union of patterns is kept, so that promising ever more of it takes the
space of one interval; of several columns, the patterns that no later one includes.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from endmark.punctuation.columns import contains_all, domain_of_type, matches
from endmark.punctuation.domain import PunctuationError
from endmark.punctuation.pattern import Nothing
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.punctuation.ranges import Ranges
from endmark.punctuation.wire_json import pattern_from_json, pattern_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from endmark.punctuation.domain import Domain
    from endmark.state.search import Bools, Ints

Written = dict[str, Any]


class _Union:
    """The promises of one partition."""

    def __init__(self, domains: Mapping[str, Domain]) -> None:
        self._domains = domains
        self.ranges: dict[str, Ranges] = {}
        self.boxes: list[Punctuation] = []

    def add(self, promise: Punctuation) -> None:
        if len(promise.patterns) == 1:
            ((name, pattern),) = promise.patterns
            self.ranges.setdefault(name, Ranges(self._domains[name])).add(pattern)
        elif not self.includes(promise):
            self.boxes = [box for box in self.boxes if not box.implies(promise, self._domains)]
            self.boxes.append(promise)

    def includes(self, promise: Punctuation) -> bool:
        """Return whether the union of one column, or one promise on several, includes this promise."""
        for name, pattern in promise.patterns:
            if name in self.ranges and self.ranges[name].includes(pattern):
                return True
        return any(promise.implies(box, self._domains) for box in self.boxes)

    def match(self, rows: pa.RecordBatch, beside: frozenset[str]) -> Bools:
        """Which rows a promise matches that restricts a column beside some."""
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


class Promised:
    """The patterns that a stream has promised, by the names of its own columns.

    Args:
        stream: its name.
        columns: those that its promises may restrict.
        key: the columns of its key.
        partitions: how many partitions must have promised a pattern before it rules out what it matches.
    """

    def __init__(self, stream: str, columns: pa.Schema, key: Sequence[str], partitions: int) -> None:
        self._stream = stream
        self._columns = columns
        self._key = frozenset(key)
        self._partitions = partitions
        self._by_partition: dict[int, _Union] = {}
        self._unannounced: dict[tuple[Any, ...], Punctuation] = {}

    @cached_property
    def domains(self) -> dict[str, Domain]:
        return {field.name: domain_of_type(field.type) for field in self._columns}

    def add(self, promises: Iterable[Punctuation]) -> None:
        """Remember promises, each with its origin. Those that say something new of their partition are to be
        announced, each pattern once."""
        for promise in sorted(promises, key=_place):
            plain = Punctuation.of(self._stream, dict(promise.normal(self.domains).patterns))
            if any(isinstance(pattern, Nothing) for _, pattern in plain.patterns):
                continue
            union = self._by_partition.setdefault(_place(promise).partition, _Union(self.domains))
            if not union.includes(plain):
                union.add(plain)
                self._unannounced[plain.patterns] = plain

    def broken(self, rows: pa.RecordBatch, partitions: Ints) -> Bools:
        """Which rows a wider promise of their own partition matches."""
        found = np.zeros(rows.num_rows, bool)
        for partition, union in self._by_partition.items():
            own = partitions == partition
            if own.any():
                found |= own & union.match(rows, self._key)
        return found

    def broken_within(
        self, promises: Iterable[Punctuation], rows: pa.RecordBatch, partitions: Ints, offsets: Ints
    ) -> Bools:
        """Which rows stand behind one of these promises in its partition, and match it."""
        found = np.zeros(rows.num_rows, bool)
        for promise in promises:
            origin = _place(promise)
            behind = (partitions == origin.partition) & (offsets > origin.offset)
            if behind.any():
                found |= behind & match(promise, rows)
        return found

    def complete(self) -> list[Punctuation]:
        """The patterns that every partition has promised, and that are not announced."""
        if len(self._by_partition) < self._partitions:
            return []
        return [
            promise
            for promise in self._unannounced.values()
            if all(union.includes(promise) for union in self._by_partition.values())
        ]

    def announce(self, promise: Punctuation) -> None:
        """One of the `complete` ones is announced. It never comes up again: no partition has news of it."""
        del self._unannounced[promise.patterns]

    def announce_nothing(self) -> None:
        """Forget what is not announced."""
        self._unannounced.clear()

    @property
    def waiting(self) -> int:
        """How many patterns are not announced."""
        return len(self._unannounced)

    def snapshot(self) -> dict[str, Any]:
        """Return the state for `restore`, ready for JSON."""
        promised = {
            str(partition): [self.written(promise) for promise in union.promises(self._stream)]
            for partition, union in self._by_partition.items()
        }
        return {"promised": promised, "unannounced": list(map(self.written, self._unannounced.values()))}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        for partition, promises in snapshot["promised"].items():
            self.add(self.read(written, Origin(int(partition), 0)) for written in promises)
        unannounced = [self.read(written) for written in snapshot["unannounced"]]
        self._unannounced = {promise.patterns: promise for promise in unannounced}

    def read(self, written: Written, origin: Origin | None = None) -> Punctuation:
        """A promise from its patterns in JSON by column."""
        return Punctuation.read(self._stream, written, self.domains, pattern_from_json, origin)

    def written(self, promise: Punctuation) -> Written:
        return {name: pattern_to_json(pattern, self.domains[name]) for name, pattern in promise.patterns}


def match(promise: Punctuation, rows: pa.RecordBatch) -> Bools:
    """Which rows a promise matches."""
    found = np.ones(rows.num_rows, bool)
    for name, pattern in promise.patterns:
        found &= matches(pattern, rows.column(name))
    return found


def _place(promise: Punctuation) -> Origin:
    if promise.origin is None:
        raise PunctuationError(f"{promise} is of no partition")
    return promise.origin
