"""Declared order: each row of an ordered partition promises that no key before its own will come there.

This is MJoin's implicit purging knowledge, as if a punctuation such as `item_id < 7` followed every row. A
*mark* is the coordinates of such a promise. The mark of each partition is kept. A batch brings its last
mark, and the marks that some of its rows fall behind. So the broken promises do not depend on how rows are
cut into batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.punctuation.columns import domain_of_type
from endmark.punctuation.pattern import Between, Equals, values_of
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.punctuation.wire_json import pattern_from_json, pattern_to_json
from endmark.state import codec
from endmark.state.segment import int64

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from endmark.domain import Value
    from endmark.state.search import Bools, Ints


class Mark(NamedTuple):
    """The farthest key of a partition so far, and the offset of the first row that had it."""

    key: Value
    offset: int


def marks(keys: pa.Array, offsets: Ints, before: Mark | None, *, descending: bool) -> tuple[list[Mark], Mark]:
    """Find the marks that some rows of one partition fall behind, and the last mark.

    Args:
        keys, offsets: the keys and offsets of the rows, in the order of offsets.
        before: the mark of the rows before them; `None` without any.
        descending: whether keys come in descending order.
    """
    if before is not None:
        keys = pa.concat_arrays([pa.array([before.key], keys.type), keys])
        offsets = np.concatenate([[before.offset], offsets])
    ranks = pc.rank(keys, tiebreaker="dense").to_numpy().astype(np.int64) * (-1 if descending else 1)
    farthest = np.maximum.accumulate(ranks)
    first = np.concatenate([[True], farthest[1:] > farthest[:-1]])
    reached = np.maximum.accumulate(np.where(first, np.arange(len(ranks)), 0))
    broken = np.unique(reached[ranks < farthest])
    found = [Mark(keys[at].as_py(), int(offsets[at])) for at in [*broken.tolist(), int(reached[-1])]]
    return found[:-1], found[-1]


def marks_table(found: Sequence[tuple[int, Mark]], kind: pa.DataType) -> pa.RecordBatch:
    """Return marks with their partitions in the form that `Order` takes.

    Args:
        found: partitions and marks.
        kind: the type of the key.
    """
    partitions = pa.array([partition for partition, _ in found], pa.int64())
    offsets = pa.array([mark.offset for _, mark in found], pa.int64())
    keys = pa.array([mark.key for _, mark in found], kind)
    return pa.record_batch([keys, partitions, offsets], names=["key", "partition", "offset"])


class Order:
    """The marks of one ordered side, by partition.

    Args:
        stream: the name of the stream.
        name: the column of the key, by the name that both sides share.
        kind: the type of that column.
        descending: whether keys come in descending order.
    """

    def __init__(self, stream: str, name: str, kind: pa.DataType, *, descending: bool) -> None:
        self._stream = stream
        self._name = name
        self._domain = domain_of_type(kind)
        self._kind = kind
        self._descending = descending
        self._reached: dict[int, pa.RecordBatch] = {}

    def broken(self, keys: pa.Array, partitions: Ints, offsets: Ints, given: pa.RecordBatch | None) -> Bools:
        """Return a mask of the rows whose key comes before that of an earlier row of their partition.

        Args:
            keys: the keys of the rows.
            partitions, offsets: the coordinates of the rows.
            given: the marks of the batch, as `marks_table` returns them; `None` without any.
        """
        found = np.zeros(len(keys), bool)
        for rows, _, _ in self._behind(keys, partitions, offsets, given):
            found[rows] = True
        return found

    def promises(
        self, keys: pa.Array, partitions: Ints, offsets: Ints, given: pa.RecordBatch | None
    ) -> list[Punctuation | None]:
        """Return the promise that each of some rows breaks. It goes row by row, since few rows break any.

        Args:
            keys: the keys of the rows that `broken` has found.
            partitions, offsets: the coordinates of the rows.
            given: the marks of the batch; `None` without any.
        """
        found: list[Punctuation | None] = [None] * len(keys)
        for rows, partition, fallen in self._behind(keys, partitions, offsets, given):
            for at, key, offset in zip(rows, *(column.to_pylist() for column in fallen.columns), strict=True):
                found[at] = self._promise(partition, Mark(key, offset))
        return found

    def take(self, given: pa.RecordBatch | None) -> list[Punctuation]:
        """Remember the marks of a batch; return the promises of partitions whose mark has moved."""
        fresh = []
        for partition, known in self._with(given).items():
            last = known.slice(known.num_rows - 1)
            if last != self._reached.get(partition):
                self._reached[partition] = last
                fresh.append(self._promise(partition, _mark(last)))
        return fresh

    def _behind(
        self, keys: pa.Array, partitions: Ints, offsets: Ints, given: pa.RecordBatch | None
    ) -> Iterator[tuple[Ints, int, pa.RecordBatch]]:
        """Yield, for each partition, the rows that fall behind a mark, and their marks.

        The rows are positions. The marks are a table with a row for each of them.
        """
        for partition, known in self._with(given).items():
            own = np.flatnonzero(partitions == partition)
            last = np.searchsorted(int64(known.column("offset")), offsets[own]) - 1
            own, last = own[last >= 0], last[last >= 0]
            by_then = known.take(pa.array(last))
            fallen = self._precedes(keys.take(pa.array(own)), by_then.column("key"))
            yield own[fallen], partition, by_then.filter(pa.array(fallen))

    def _with(self, given: pa.RecordBatch | None) -> dict[int, pa.RecordBatch]:
        """Return the marks of each partition by offset: that of earlier batches, then farther new ones."""
        known = dict(self._reached)
        if given is None:
            return known
        partitions = int64(given.column("partition"))
        for partition in np.unique(partitions).tolist():
            mine = given.filter(pa.array(partitions == partition)).sort_by("offset")
            mine = mine.select(["key", "offset"])
            if (reached := self._reached.get(partition)) is not None:
                farthest = pa.repeat(reached.column("key")[0], mine.num_rows)
                farther = self._precedes(farthest, mine.column("key"))
                mine = codec.concat([reached, mine.filter(pa.array(farther))])
            known[partition] = mine
        return known

    def _precedes(self, keys: pa.Array, others: pa.Array) -> Bools:
        found = (pc.greater if self._descending else pc.less)(keys, others)
        mask: Bools = found.to_numpy(zero_copy_only=False)
        return mask

    def _promise(self, partition: int, mark: Mark) -> Punctuation:
        below = Between(high=mark.key, high_open=True)
        over = Between(low=mark.key, low_open=True)
        patterns = {self._name: over if self._descending else below}
        origin = Origin(partition, mark.offset)
        return Punctuation.of(self._stream, patterns, origin).normal({self._name: self._domain})

    def snapshot(self) -> dict[str, Any]:
        """Return the state for `restore`, ready for JSON."""
        found = {partition: _mark(reached) for partition, reached in self._reached.items()}
        return {
            str(partition): [mark.offset, pattern_to_json(Equals(mark.key), self._domain)]
            for partition, mark in found.items()
        }

    def restore(self, snapshot: Mapping[str, Sequence[Any]]) -> list[Punctuation]:
        """Restore the marks; return the promises that they make."""
        found = []
        for partition, (offset, written) in snapshot.items():
            (key,) = values_of(pattern_from_json(written, self._domain))
            found.append((int(partition), Mark(key, offset)))
        return self.take(marks_table(found, self._kind))


def _mark(reached: pa.RecordBatch) -> Mark:
    return Mark(reached.column("key")[0].as_py(), reached.column("offset")[0].as_py())
