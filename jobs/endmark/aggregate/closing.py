"""Closing group-by: partial aggregates per batch, combined and put out when a punctuation closes the group.

State: a segment list of partial rows by key; segments combine rows of equal key when they merge. A batch
costs its own rows, not the number of open groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.state import codec, manifest
from endmark.state.keys import KeySpec
from endmark.state.segment_list import SegmentList

if TYPE_CHECKING:
    from collections.abc import Callable

    from endmark.state.keys import Keys
    from endmark.state.search import Bools
    from endmark.state.segment_list import Gone
    from endmark.state.store import SegmentStore


@dataclass(frozen=True)
class KeyColumn:
    """One column of the group key: the first of the input columns `sources` that is not null."""

    name: str
    kind: pa.DataType
    sources: tuple[str, ...]


@dataclass(frozen=True)
class MeasureSpec:
    """One measure: `count` of rows, or `max` of the input column `column`; `kind` is its Arrow type."""

    name: str
    function: Literal["count", "max"]
    column: str | None
    kind: pa.DataType


class ClosingAggregate:
    """Groups of one bucket. `add` results, then close some; `snapshot` carries it over a restart."""

    def __init__(
        self,
        keys: list[KeyColumn],
        measures: list[MeasureSpec],
        store: SegmentStore,
        restored: bytes | None = None,
    ) -> None:
        self._keys = keys
        self._measures = measures
        self.schema = pa.schema([*((k.name, k.kind) for k in keys), *((m.name, m.kind) for m in measures)])
        key = KeySpec.of([column.name for column in keys], [column.kind for column in keys])
        self._combine = partial(_combined, key, measures, self.schema)
        self.groups = SegmentList(store, key, merge=self._combine)
        if restored is not None:
            manifest.load(restored, {"groups": self.groups})

    def snapshot(self) -> bytes:
        return manifest.save({"groups": self.groups}, {})

    def add(self, inputs: list[pa.RecordBatch]) -> None:
        """Fold the `inputs` of results into their groups."""
        if inputs:
            self.groups.append(self._combine(codec.concat(inputs)))
            self.groups.maintain()

    def close(self, keys: Keys) -> pa.RecordBatch:
        """Remove and return the groups of `keys`, which are sorted by code, one row each."""
        return self._put_out(self.groups.remove(keys))

    def close_where(self, final: Callable[[Keys], Bools]) -> pa.RecordBatch:
        """Remove and return the groups that `final` is true of."""
        return self._put_out(self.groups.remove_where(lambda segment: np.flatnonzero(final(segment.keys))))

    def _put_out(self, groups: list[Gone]) -> pa.RecordBatch:
        parts = [gone.batch for gone in groups]
        self.groups.maintain()
        if not parts:
            return pa.RecordBatch.from_pylist([], self.schema)
        return self._combine(codec.concat(parts)).select(self.schema.names)

    def inputs(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of join results that groups are made of, each row a group of one."""
        ones = pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows)
        keys = [pc.coalesce(*(batch.column(name) for name in column.sources)) for column in self._keys]
        measures = [ones if m.column is None else batch.column(m.column) for m in self._measures]
        return pa.record_batch([*keys, *measures], schema=self.schema)


def _combined(
    key: KeySpec, measures: list[MeasureSpec], schema: pa.Schema, partials: pa.RecordBatch
) -> pa.RecordBatch:
    """One row for each key, in order of code."""
    functions = {"count": "sum", "max": "max"}  # a count of partial counts is their sum
    grouped = (
        pa.Table.from_batches([partials])
        .group_by(list(key.columns), use_threads=False)
        .aggregate([(m.name, functions[m.function]) for m in measures])
    )
    names = [*key.columns, *(f"{m.name}_{functions[m.function]}" for m in measures)]
    cast = [pc.cast(grouped.column(name), field.type) for name, field in zip(names, schema, strict=True)]
    return key.sorted(key.coded(codec.concat(pa.table(cast, schema=schema).to_batches())))
