"""Closing group-by: partial aggregates per batch, combined and put out when a punctuation closes the group.

State: a segment list of partial rows by key; segments combine rows of equal key when they merge. A batch
costs its own rows, not the number of open groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.compute as pc

from endmark.state import codec, manifest
from endmark.state.segment import sort_by_key
from endmark.state.segment_list import SegmentList

if TYPE_CHECKING:
    from endmark.state.search import Ints
    from endmark.state.store import SegmentStore


@dataclass(frozen=True)
class MeasureSpec:
    """One measure: `count` of rows, or `max` of the input column `column`; `kind` is its Arrow type."""

    name: str
    function: Literal["count", "max"]
    column: str | None
    kind: pa.DataType


class ClosingAggregate:
    """Groups of one bucket. `add` results, then `close` keys; `snapshot` carries it over a restart."""

    def __init__(
        self,
        key: str,
        output_key: str,
        measures: list[MeasureSpec],
        store: SegmentStore,
        restored: bytes | None = None,
    ) -> None:
        self._key = key
        self._output_key = output_key
        self._measures = measures
        self.schema = pa.schema([(output_key, pa.int64()), *((m.name, m.kind) for m in measures)])
        self.groups = SegmentList(store, output_key, merge=self._combine)
        if restored is not None:
            manifest.load(restored, {"groups": self.groups})

    def snapshot(self) -> bytes:
        return manifest.save({"groups": self.groups}, {})

    def add(self, inputs: list[pa.RecordBatch]) -> None:
        """Fold the `inputs` of results into their groups."""
        if inputs:
            self.groups.append(self._grouped(pa.Table.from_batches(inputs)))
            self.groups.maintain()

    def close(self, keys: Ints) -> pa.RecordBatch:
        """Remove and return the groups of sorted `keys`, one row each, sorted by key."""
        parts = self.groups.take(keys)
        self.groups.maintain()
        return self._combine(codec.concat(parts)) if parts else pa.RecordBatch.from_pylist([], self.schema)

    def inputs(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of join results that groups are made of, each row a group of one."""
        ones = pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows)
        columns = [ones if m.column is None else batch.column(m.column) for m in self._measures]
        return pa.record_batch([batch.column(self._key), *columns], schema=self.schema)

    def _combine(self, partials: pa.RecordBatch) -> pa.RecordBatch:
        return self._grouped(pa.Table.from_batches([partials]))

    def _grouped(self, table: pa.Table) -> pa.RecordBatch:
        functions = {"count": "sum", "max": "max"}  # a count of partial counts is their sum
        grouped = table.group_by(self._output_key, use_threads=False).aggregate(
            [(m.name, functions[m.function]) for m in self._measures]
        )
        names = [f"{m.name}_{functions[m.function]}" for m in self._measures]
        columns = [grouped.column(self._output_key), *(grouped.column(name) for name in names)]
        cast = [pc.cast(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
        combined = pa.table(cast, schema=self.schema).combine_chunks()
        return sort_by_key(combined.to_batches()[0], self._output_key)
