"""Admission: the rows of a batch are joined unless they break a promise of their own stream."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.operators.stream_batch import StreamBatch
from endmark.operators.stream_join.closed_keys import LATER, known_offsets
from endmark.operators.stream_join.event_times import NEVER
from endmark.python_values import holdable
from endmark.state import codec, search
from endmark.state.segment import Segment, completed, int64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.operators.stream_join.first_rows import FirstRows
    from endmark.operators.stream_join.side import SideState
    from endmark.punctuation.punctuation import Punctuation
    from endmark.state.keys import Keys
    from endmark.state.search import Bools, Ints


@dataclass
class Violation:
    """Records of one side that are not joined, for the same reason.

    Args:
        side: the stream's name.
        reason: `late`, `unordered`, `closed`, `repeated`, `unclustered` or `idle`. A frame also has `null`,
            for rows that never come to the join.
        rows: one row of each record.
        promises: the broken promise of each row, by the names that both sides share. It is `None` for a
            promise on columns beside the key. The list is empty for reasons without promises, such as `late`.
    """

    side: str
    reason: str
    rows: pa.RecordBatch
    promises: Sequence[Punctuation | None] = ()


@dataclass
class Admitted:
    """A batch of one side after admission.

    Args:
        batch: the batch, with the keys that its rows close.
        rows: the rows that are joined, without the columns that they lose; `None` without any.
        complete: the same rows with all of their columns.
        bystanders: the bystanders that break no promise; `None` if the batch had none.
        violations: the rows and bystanders that break a promise.
        duplicates: the number of records that are dropped as duplicates of earlier ones.
    """

    batch: StreamBatch
    rows: Segment | None = None
    complete: pa.RecordBatch | None = None
    bystanders: pa.RecordBatch | None = None
    violations: list[Violation] = field(default_factory=list)
    duplicates: int = 0


def admit(side: SideState, batch: StreamBatch) -> Admitted:
    """Split a batch into rows to join, bystanders, violations, and duplicates."""
    if side.spec.unique or side.spec.clustered:
        batch = _closed_by_rows(side, batch)
    found = Admitted(batch)
    bystanders = _kept(side, batch.bystanders, batch, found)
    rows = _kept(side, batch.rows, batch, found)
    if side.first_rows is not None:
        rows, bystanders = _deduplicated(side, side.first_rows, [rows, bystanders], found)
    found.bystanders = bystanders
    if rows is not None and rows.num_rows:
        found.complete = rows
        # Rows of segments have this order, too, whatever the order of columns was when they came.
        joined = completed(rows.drop_columns(list(side.spec.lost)), side.spec.schema)
        found.rows = Segment.arrived(joined, side.spec.key, side.spec.time)
    return found


def _kept(
    side: SideState, rows: pa.RecordBatch | None, batch: StreamBatch, found: Admitted
) -> pa.RecordBatch | None:
    """Return the rows that break no promise; put the others into `found`."""
    if rows is None:
        return None
    bad = _reject(side, rows, batch, found)
    return rows.filter(pa.array(~bad)) if bad.any() else rows


def _deduplicated(
    side: SideState, first_rows: FirstRows, pieces: Sequence[pa.RecordBatch | None], found: Admitted
) -> list[pa.RecordBatch | None]:
    """Return the rows that are no duplicates, and count the others in `found`.

    Args:
        side: the state of the rows' side.
        first_rows: the rows that have passed before.
        pieces: rows of one batch that break no promise. Some may be `None`, and stay so.
        found: gets the number of duplicates.
    """
    there = [piece for piece in pieces if piece is not None]
    if not any(piece.num_rows for piece in there):
        return list(pieces)
    rows = codec.concat([piece.select(first_rows.own_columns) for piece in there])
    passes = first_rows.admit(rows)
    if passes.all():
        return list(pieces)
    found.duplicates = _records(side, rows.filter(pa.array(~passes))).num_rows
    masks = iter(np.split(passes, np.cumsum([piece.num_rows for piece in there])[:-1]))
    return [None if piece is None else piece.filter(pa.array(next(masks))) for piece in pieces]


def _reject(side: SideState, rows: pa.RecordBatch, batch: StreamBatch, found: Admitted) -> Bools:
    reasons = violations(side, rows, batch)
    for reason, bad in reasons.items():
        if bad.any():
            set_aside = _records(side, rows.filter(pa.array(bad)))
            promises = broken(side, set_aside, batch, reason)
            found.violations.append(Violation(side.spec.name, reason, set_aside, promises))
    return _any(reasons)


def _records(side: SideState, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return one row of each record. A lookup may have made several rows of a record."""
    if side.spec.partition is None or side.spec.offset is None:
        return rows
    coordinates = [int64(rows.column(name)) for name in (side.spec.partition, side.spec.offset)]
    return rows.take(pa.array(search.firsts(coordinates)))


def _closed_by_rows(side: SideState, batch: StreamBatch) -> StreamBatch:
    """Add the keys that rows close to the keys that punctuations close; return the batch with both.

    Each row of a stream with unique keys closes its own key, unless it breaks a promise. A row of a clustered
    stream closes the key of the run that it ends.
    """
    columns = [*side.spec.key.stored, str(side.spec.partition), str(side.spec.offset)]
    names = [*side.key.stored, "partition", "offset"]
    closed_keys = []
    if batch.closed_keys is not None:
        closed_keys.append((batch.closed_keys.select(names), 0))
    closed_keys += [(keys.select(names), 1) for keys in side.runs.take(batch.runs)]
    for rows in (batch.bystanders, batch.rows):
        if rows is not None and side.spec.unique:
            bad = _any(_ruled_out(side, rows, batch)) | _overtaken(side, rows)
            good = rows.filter(pa.array(~bad))
            closed_keys.append((good.select(columns).rename_columns(names), 1))
    marked = [
        keys.append_column("by_row", pa.array(np.full(keys.num_rows, by_row)))
        for keys, by_row in closed_keys
        if keys.num_rows
    ]
    return replace(batch, closed_keys=codec.concat(marked) if marked else None)


def violations(side: SideState, rows: pa.RecordBatch, batch: StreamBatch) -> dict[str, Bools]:
    """Return masks of the rows that break a promise, by reason. A row has only the first reason that holds.

    Args:
        side: the state of the rows' side before the batch.
        rows: rows of the batch, or bystanders.
        batch: the batch, with the keys that its rows close.
    """
    found = _ruled_out(side, rows, batch)
    partitions, offsets, batch = _coordinates(side, rows, batch)
    keys = side.spec.key.keys(rows)
    naming = side.closed_keys.naming(keys, partitions, offsets, batch.closed_keys)
    named = naming.rules_out & ~_any(found)
    found["closed"] |= named & ~naming.by_row
    found["unclustered" if side.spec.clustered else "repeated"] = named & naming.by_row
    found["idle"] = _overtaken(side, rows) & ~_any(found)
    return found


def _ruled_out(side: SideState, rows: pa.RecordBatch, batch: StreamBatch) -> dict[str, Bools]:
    """Return masks, by reason, of the rows that are late or break an order or a pattern.

    Promises that name the key of a row do not count here.
    """
    keys = side.spec.key.keys(rows)
    partitions, offsets, batch = _coordinates(side, rows, batch)
    closed = side.sent_key_promises.promised_by(keys, partitions)
    key_promises = _in_front(batch.key_promises, partitions, offsets)
    closed |= side.sent_key_promises.broken_within(key_promises, keys, partitions, offsets)
    closed |= side.promises.broken(rows, partitions)
    promises = _in_front(batch.promises, partitions, offsets)
    closed |= side.promises.broken_within(promises, rows, partitions, offsets)
    found = {"late": _late(side, rows)}
    if side.order is not None:
        ordered = rows.column(side.spec.key.columns[0])
        unordered = side.order.broken(ordered, partitions, offsets, batch.marks)
        found["unordered"] = unordered & ~found["late"]
    found["closed"] = closed & ~_any(found)
    return found


def _in_front(promises: Sequence[Punctuation], partitions: Ints, offsets: Ints) -> list[Punctuation]:
    """Return the promises behind which their partition has a row.

    Many have none, since a stream often closes what it has just sent.

    Args:
        promises: promises of the rows' own batch.
        partitions, offsets: the coordinates of the rows.
    """
    newest = {
        partition: int(offsets[partitions == partition].max(initial=-1))
        for partition in {one.coordinates.partition for one in promises}
    }
    return [one for one in promises if one.coordinates.offset < newest[one.coordinates.partition]]


def _overtaken(side: SideState, rows: pa.RecordBatch) -> Bools:
    """Return a mask of the rows older than progress. Those that are not late come from an idle partition."""
    if not side.spec.can_idle:
        return np.zeros(rows.num_rows, bool)
    older: Bools = int64(rows.column(side.spec.time)) < side.progress
    return older


def broken(
    side: SideState, rows: pa.RecordBatch, batch: StreamBatch, reason: str
) -> Sequence[Punctuation | None]:
    """Return the promise that each of some violations breaks; an empty list if they are late or idle.

    A row may break several promises. The pattern of its partition that was in force at its offset comes
    first, then the first promise that names its key, then one of another partition that does. `None` stands
    for a promise on columns beside the key, or for the promise of a key that `holdable` excludes, since no
    text of a promise has such a value. A promise of its partition that names the key has the offset that
    `known_offsets` returns.

    Args:
        side: the state of the rows' side before the batch.
        rows: the violations.
        batch: the batch that they came in.
        reason: the reason, which all violations share.
    """
    if reason in ("late", "idle"):
        return []
    held = holdable(rows.select(side.spec.key.columns))
    promises = iter(_broken(side, rows.filter(pa.array(held)), batch, reason))
    return [next(promises) if each else None for each in held]


def _broken(
    side: SideState, rows: pa.RecordBatch, batch: StreamBatch, reason: str
) -> Sequence[Punctuation | None]:
    """Return the promises that `broken` returns, for violations whose keys Python can hold."""
    keys = side.spec.key.keys(rows)
    partitions, offsets, batch = _coordinates(side, rows, batch)
    if side.order is not None and reason == "unordered":
        ordered = rows.column(side.spec.key.columns[0])
        return side.order.promises(ordered, partitions, offsets, batch.marks)
    promises = side.sent_key_promises.broken_promises(batch.key_promises, keys, partitions, offsets)
    naming = side.closed_keys.naming(keys, partitions, offsets, batch.closed_keys)
    known = known_offsets(naming.since, offsets)
    elsewhere = _named_elsewhere(side, keys, partitions, naming.elsewhere)
    values = list(zip(*(rows.column(name).to_pylist() for name in side.spec.key.columns), strict=True))
    found: list[Punctuation | None] = []
    for at, (promise, key) in enumerate(zip(promises, values, strict=True)):
        coordinates = elsewhere.get(at)
        if coordinates is None and naming.since[at] != LATER:
            coordinates = int(partitions[at]), int(known[at])
        found.append(promise or (coordinates and side.sent_key_promises.naming(key, *coordinates)))
    return found


def _named_elsewhere(
    side: SideState, keys: Keys, partitions: Ints, asked: Bools
) -> dict[int, tuple[int, int]]:
    """Find the promises that name the keys of rows in any partition of their own stream.

    A row may have several such promises. The one with the lowest partition and offset counts.

    Args:
        side: the state of the rows' side before the batch.
        keys: the keys of rows.
        partitions: the partitions of the rows.
        asked: a mask of the rows whose promises are wanted.

    Returns:
        partition and offset of the promise, by the position of the row.
    """
    found: dict[int, tuple[int, int]] = {}
    if not asked.any():
        return found
    asked_at = np.flatnonzero(asked)
    for i, partition, offset in side.closed_keys.promises_of(keys.take(asked_at)):
        at, coordinates = int(asked_at[i]), (partition, offset)
        if any(each.owns(partition) and each.owns(int(partitions[at])) for each in side.spec.streams):
            found[at] = min(found.get(at, coordinates), coordinates)
    return found


def _coordinates(side: SideState, rows: pa.RecordBatch, batch: StreamBatch) -> tuple[Ints, Ints, StreamBatch]:
    """Return the partitions and offsets of rows, and the batch whose punctuations may come before them.

    A frame has no offsets, and its rows stand before all punctuations of their batch. So its batch is empty
    here.
    """
    if side.spec.partition is None or side.spec.offset is None:
        return np.zeros(rows.num_rows, np.int64), np.full(rows.num_rows, LATER - 1), StreamBatch()
    return int64(rows.column(side.spec.partition)), int64(rows.column(side.spec.offset)), batch


def _late(side: SideState, rows: pa.RecordBatch) -> Bools:
    """Return a mask of the rows that are late by the newest event times before their batch."""
    if not side.newest:
        return np.zeros(rows.num_rows, bool)
    bounds = np.full(max(side.newest) + 1, NEVER)
    for partition, time in side.newest.items():
        bounds[partition] = time - side.spec.lateness
    if side.spec.partition is None:
        partitions = np.zeros(rows.num_rows, np.int64)
    else:
        partitions = int64(rows.column(side.spec.partition))
    known = partitions < len(bounds)
    late: Bools = known & (
        int64(rows.column(side.spec.time)) < bounds[np.minimum(partitions, len(bounds) - 1)]
    )
    return late


def _any(reasons: dict[str, Bools]) -> Bools:
    found: Bools = np.logical_or.reduce(list(reasons.values()))
    return found
