"""Which rows of a batch are joined: those that break no promise of their own stream."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.operators.stream_join.named_keys import LATER
from endmark.operators.stream_join.side import NEVER, SideInput
from endmark.state import codec
from endmark.state.segment import Segment, int64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.operators.stream_join.side import SideState
    from endmark.punctuation.punctuation import Punctuation
    from endmark.state.search import Bools, Ints


@dataclass
class Violation:
    """Records of one side, with a row of each, that break a promise of their own stream; `reason` is `late`,
    `unordered`, `closed`, `repeated`, `unclustered` or `idle`.

    `promises` are those that they break unless they are late or idle, one for each row, under the names that
    both sides share; `None` stands for a wider one.
    """

    side: str
    reason: str
    rows: pa.RecordBatch
    promises: Sequence[Punctuation | None] = ()


@dataclass
class Admitted:
    """The rows of a batch that are joined, the bystanders that break no promise, and who does; `given` is the
    batch, with the keys that its rows name."""

    given: SideInput
    rows: Segment | None = None
    bystanders: pa.RecordBatch | None = None
    violations: list[Violation] = field(default_factory=list)


def admit(side: SideState, given: SideInput) -> Admitted:
    """Set violations aside, bystanders' among them."""
    if side.spec.unique or side.spec.clustered:
        given = _named_by_rows(side, given)
    found = Admitted(given)
    if given.bystanders is not None:
        bad = _reject(side, given.bystanders, given, found)
        found.bystanders = given.bystanders.filter(pa.array(~bad))
    if given.rows is None:
        return found
    bad = _reject(side, given.rows, given, found)
    rows = given.rows.filter(pa.array(~bad)) if bad.any() else given.rows
    if rows.num_rows:
        found.rows = Segment.arrived(rows, side.spec.key, side.spec.time)
    return found


def _reject(side: SideState, rows: pa.RecordBatch, given: SideInput, found: Admitted) -> Bools:
    reasons = violations(side, rows, given)
    for reason, bad in reasons.items():
        if bad.any():
            set_aside = _records(side, rows.filter(pa.array(bad)))
            promises = broken(side, set_aside, given, reason)
            found.violations.append(Violation(side.spec.name, reason, set_aside, promises))
    return _any(reasons)


def _records(side: SideState, rows: pa.RecordBatch) -> pa.RecordBatch:
    """One row of each record, of which a lookup may have made several."""
    if side.spec.partition is None or side.spec.offset is None:
        return rows
    places = [int64(rows.column(name)) for name in (side.spec.partition, side.spec.offset)]
    _, first = np.unique(places, axis=1, return_index=True)
    return rows.take(pa.array(np.sort(first)))


def _named_by_rows(side: SideState, given: SideInput) -> SideInput:
    """The batch with the keys that its rows name: of unique ones each its own, unless it is ruled out anyhow;
    of clustered ones each that of the run it ends."""
    columns = [*side.spec.key.stored, str(side.spec.partition), str(side.spec.offset)]
    names = [*side.key.stored, "partition", "offset"]
    named = []
    if given.punctuations is not None:
        named.append((given.punctuations.select(names), 0))
    named += [(keys.select(names), 1) for keys in side.runs.take(given.runs)]
    for rows in (given.bystanders, given.rows):
        if rows is not None and side.spec.unique:
            bad = _any(_ruled_out(side, rows, given)) | _overtaken(side, rows)
            good = rows.filter(pa.array(~bad))
            named.append((good.select(columns).rename_columns(names), 1))
    marked = [
        batch.append_column("by_row", pa.array(np.full(batch.num_rows, by_row)))
        for batch, by_row in named
        if batch.num_rows
    ]
    return replace(given, punctuations=codec.concat(marked) if marked else None)


def violations(side: SideState, rows: pa.RecordBatch, given: SideInput) -> dict[str, Bools]:
    """The rows that may not come, by the first reason that holds for them."""
    found = _ruled_out(side, rows, given)
    partitions, offsets, given = _places(side, rows, given)
    since, by_row = side.named.named_at(side.spec.key.keys(rows), partitions, given.punctuations)
    named = (since < offsets) & ~_any(found)
    found["closed"] |= named & ~by_row
    found["unclustered" if side.spec.clustered else "repeated"] = named & by_row
    found["idle"] = _overtaken(side, rows) & ~_any(found)
    return found


def _ruled_out(side: SideState, rows: pa.RecordBatch, given: SideInput) -> dict[str, Bools]:
    """The rows that may not come, whatever is said of their key by its name."""
    keys = side.spec.key.keys(rows)
    partitions, offsets, given = _places(side, rows, given)
    closed = side.said.closed_by(keys, partitions)
    closed |= side.said.closed_before(given.promises, keys, partitions, offsets)
    closed |= side.promised.broken(rows, partitions)
    closed |= side.promised.broken_within(given.patterns, rows, partitions, offsets)
    found = {"late": _late(side, rows)}
    if side.order is not None:
        ordered = rows.column(side.spec.key.columns[0])
        unordered = side.order.broken(ordered, partitions, offsets, given.marks)
        found["unordered"] = unordered & ~found["late"]
    found["closed"] = closed & ~_any(found)
    return found


def _overtaken(side: SideState, rows: pa.RecordBatch) -> Bools:
    """The rows older than progress; those that are not late are of a partition that had no part in it."""
    if side.spec.idle is None:
        return np.zeros(rows.num_rows, bool)
    older: Bools = int64(rows.column(side.spec.time)) < side.progress
    return older


def broken(
    side: SideState, rows: pa.RecordBatch, given: SideInput, reason: str
) -> Sequence[Punctuation | None]:
    """The promise that each of some rows breaks which are violations for this reason.

    Of a `closed` row that is the pattern of its partition by then, else the first that names its key, as of
    those that a row ruled out; `None` where only a wider promise matches it. Of `late` and `idle` rows
    there is none.
    """
    if reason in ("late", "idle"):
        return []
    keys = side.spec.key.keys(rows)
    partitions, offsets, given = _places(side, rows, given)
    if side.order is not None and reason == "unordered":
        ordered = rows.column(side.spec.key.columns[0])
        return side.order.promises(ordered, partitions, offsets, given.marks)
    patterns = side.said.broken(given.promises, keys, partitions, offsets)
    named, _ = side.named.named_at(keys, partitions, given.punctuations)
    values = [rows.column(name).to_pylist() for name in side.spec.key.columns]
    return [
        pattern or (side.said.naming(key, int(partition), int(since)) if since < offset else None)
        for pattern, key, partition, since, offset in zip(
            patterns, zip(*values, strict=True), partitions, named, offsets, strict=True
        )
    ]


def _places(side: SideState, rows: pa.RecordBatch, given: SideInput) -> tuple[Ints, Ints, SideInput]:
    """Partitions and offsets of rows, and what punctuates them."""
    if side.spec.partition is None or side.spec.offset is None:
        return np.zeros(rows.num_rows, np.int64), np.full(rows.num_rows, LATER - 1), SideInput()
    return int64(rows.column(side.spec.partition)), int64(rows.column(side.spec.offset)), given


def _late(side: SideState, rows: pa.RecordBatch) -> Bools:
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
