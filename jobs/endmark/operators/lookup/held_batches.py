"""Held batches: batches of a stream that wait behind a lookup.

A held batch has those of its rows that R has answered, and all its punctuations and progress. It leaves when
R has answered all of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from endmark.operators.stream_batch import RunNews, StreamBatch
from endmark.state import codec
from endmark.state.keys import KeySpec
from endmark.state.segment import int64
from endmark.state.segment_list import SegmentList

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.operators.promise_codec import PromiseCodec
    from endmark.punctuation.punctuation import Punctuation
    from endmark.state.store import SegmentStore

_BY_PARTITION = KeySpec(("partition",))
BATCH = "$batch"  # int64: the number of the batch in which a row came


@dataclass(frozen=True)
class NumberedBatch:
    """A batch that has come to a gate, without the rows that the gate looks up.

    Args:
        number: the number of the batch.
        until: the number of rows that had come to the gate by its end.
        batch: the batch without rows. `HeldBatches` keeps its tables in lists of their own.
    """

    number: int
    until: int
    batch: StreamBatch


class HeldBatches:
    """The held batches of one stream in one bucket.

    Args:
        store: keeps the rows.
        key: the key by which rows leave.
        codec: reads and writes the promises of the stream.
        matched, missed: the first columns of answered rows with and without a match.
    """

    def __init__(
        self, store: SegmentStore, key: KeySpec, codec: PromiseCodec, matched: pa.Schema, missed: pa.Schema
    ) -> None:
        self._codec = codec
        self._rows = SegmentList(store, key, BATCH, columns=matched)
        self._missed = SegmentList(store, key, BATCH, columns=missed)
        by_key = key.shared
        keys = {"closed_keys": by_key, "deleted_keys": by_key, "marks": _BY_PARTITION}
        keys |= {"ended": by_key, "first": _BY_PARTITION, "last": by_key}
        others = {name: SegmentList(store, key, BATCH) for name, key in keys.items()}
        self._lists = {"rows": self._rows, "missed": self._missed} | others
        self._batches: list[NumberedBatch] = []

    def __bool__(self) -> bool:
        return bool(self._batches)

    @property
    def lists(self) -> dict[str, SegmentList]:
        """The lists of segments, by name in a snapshot."""
        return {f"held_{name}": each for name, each in self._lists.items()}

    def notes(self) -> list[dict[str, Any]]:
        """Return the state for `restore` as JSON, without the segments of `lists`."""
        return [
            {
                "number": one.number,
                "until": one.until,
                "since": one.batch.since,
                "promises": [self._codec.write(promise) for promise in one.batch.promises],
                "newest": one.batch.newest,
                "heard": one.batch.heard,
            }
            for one in self._batches
        ]

    def restore(self, notes: list[dict[str, Any]]) -> None:
        """Restore the state, once a snapshot has filled the lists."""
        self._batches = [NumberedBatch(one["number"], one["until"], self._restored(one)) for one in notes]

    def _restored(self, notes: dict[str, Any]) -> StreamBatch:
        promises = self._codec.read(notes["promises"])
        return StreamBatch(
            promises=promises,
            key_promises=self._codec.on_key(promises),
            newest={int(partition): time for partition, time in notes["newest"].items()},
            heard={int(partition): (first, last) for partition, (first, last) in notes["heard"].items()},
            since=notes["since"],
        )

    @property
    def rows(self) -> int:
        """The number of rows that R has answered, and that wait for other rows."""
        return self._rows.rows + self._missed.rows

    @property
    def memory(self) -> int:
        """The memory of these rows, in bytes."""
        return sum(segment.memory for each in (self._rows, self._missed) for segment in each.segments)

    @property
    def promises(self) -> list[Punctuation]:
        """The promises of held batches."""
        return [promise for one in self._batches for promise in one.batch.promises]

    @property
    def since(self) -> int | None:
        """The arrival time of the oldest held batch, in microseconds since 1970; `None` without one."""
        return min((one.batch.since for one in self._batches if one.batch.since is not None), default=None)

    @property
    def until(self) -> int | None:
        """The number of rows that had come by the end of the oldest held batch; `None` without one."""
        return self._batches[0].until if self._batches else None

    def hold(
        self, came: Sequence[NumberedBatch], rows: pa.RecordBatch | None, missed: pa.RecordBatch | None
    ) -> None:
        """Hold batches, and keep the rows that R has answered.

        Args:
            came: the batches that have come, in their order.
            rows, missed: answered rows with and without a match. They may have come earlier than `came`, as
                their column `BATCH` says.
        """
        for some, held in ((rows, self._rows), (missed, self._missed)):
            if some is not None:
                held.append(some)
        for one in came:
            batch = one.batch
            rest = replace(
                batch, bystanders=None, closed_keys=None, deleted_keys=None, marks=None, runs=RunNews()
            )
            self._batches.append(replace(one, batch=rest))
            keys = {"closed_keys": batch.closed_keys, "deleted_keys": batch.deleted_keys}
            for name, table in {**keys, "marks": batch.marks, **batch.runs._asdict()}.items():
                if table is not None:
                    self._lists[name].append(self._lists[name].key.sorted(numbered(table, one.number)))

    def let_go(self, complete: int) -> list[StreamBatch]:
        """Return the batches whose rows are all among the first `complete` that came to the gate."""
        free = [one for one in self._batches if one.until <= complete]
        self._batches = self._batches[len(free) :]
        if not free:
            return []
        last = free[-1].number
        taken = {
            name: (held.key, [gone.batch for gone in held.expire(last + 1)])
            for name, held in self._lists.items()
        }
        leaving = []
        for one in free:
            own = {name: _of_batch(gone, one.number, key) for name, (key, gone) in taken.items()}
            leaving.append(
                replace(
                    one.batch,
                    rows=own["rows"],
                    bystanders=own["missed"],
                    closed_keys=own["closed_keys"],
                    deleted_keys=own["deleted_keys"],
                    marks=own["marks"],
                    runs=RunNews(own["ended"], own["first"], own["last"]),
                )
            )
        return leaving

    def maintain(self) -> None:
        for each in self._lists.values():
            each.maintain()


def numbered(rows: pa.RecordBatch, number: int) -> pa.RecordBatch:
    """Return rows with the number of their batch as the column `BATCH`."""
    return rows.append_column(BATCH, pa.array(np.full(rows.num_rows, number)))


def unnumbered(batch: pa.RecordBatch | None) -> pa.RecordBatch | None:
    """Return rows without the column `BATCH`; `None` stays `None`."""
    return None if batch is None else batch.drop_columns([BATCH])


def _of_batch(pieces: list[pa.RecordBatch], number: int, key: KeySpec) -> pa.RecordBatch | None:
    """Return the rows of one batch, sorted by key; `None` without any.

    Args:
        pieces: rows of several batches, with the column `BATCH`.
        number: the number of the batch.
        key: the key.
    """
    found = [piece.filter(pa.array(int64(piece.column(BATCH)) == number)) for piece in pieces]
    filled = [rows for rows in found if rows.num_rows]
    return unnumbered(key.sorted(codec.concat(filled))) if filled else None
