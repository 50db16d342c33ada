"""The row steps behind lookups of a stream, in front of its next lookups or of the join.

They treat rows as a lookup without a match does: a row that is left out is not joined, but it is still judged
and keeps its promises. It is filtered, or it is a dead letter if an expression fails on it. A record of which
lookups have made several rows has this fate once none of them is left.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.engine.channels import VALUE
from endmark.expressions.condition_failures import Failures
from endmark.metrics import sample
from endmark.operators.lookup.gate import MISSED, least
from endmark.state import codec
from endmark.state.keys import CODE
from endmark.state.segment import int64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.engine.bucket.lookup_levels import PlacedStep
    from endmark.engine.streams import StreamPlan
    from endmark.expressions.row_steps import Stepped
    from endmark.operators.stream_batch import StreamBatch


class LookedUpSteps:
    """Runs the row steps behind a level of lookups.

    Attributes:
        samples: the metrics of all batches.
        failures: the rows on which an expression failed, by its field.

    Args:
        stream: the plan of the stream.
        steps: the steps of the level, in order.
        last: whether the rows enter the join behind the steps.
    """

    def __init__(self, stream: StreamPlan, steps: Sequence[PlacedStep], *, last: bool) -> None:
        self._stream = stream
        self._steps = steps
        self._last = last
        self.samples: Counter[str] = Counter()
        self.failures: dict[str, Failures] = {}

    def through(self, batch: StreamBatch) -> StreamBatch:
        """Return a batch of the stream behind the steps."""
        for placed in self._steps:
            batch = self._step(placed, batch)
        if self._last and self._stream.keeps_value and batch.rows is not None:
            batch = replace(batch, rows=batch.rows.drop_columns([VALUE]))
        return batch

    def _step(self, placed: PlacedStep, batch: StreamBatch) -> StreamBatch:
        """Return a batch behind one step."""
        if batch.rows is None:
            return batch
        # DuckDB takes a tenth of a second to import, and few lookups have row steps behind them.
        from endmark.expressions.row_steps import by_field, run

        stepped = run([placed.step], batch.rows)
        for step, filtered in stepped.filtered.items():
            self.samples[sample("filtered_rows_total", stream=self._stream.name, step=step)] += filtered
        for field, failed in by_field(stepped.failures):
            coordinates = self._stream.side.coordinates(batch.rows, failed[0].at)
            self.failures.setdefault(field, Failures(field)).add(len(failed), failed[0].why, [coordinates])
        left = batch.rows.take(pa.array(stepped.at))
        for name in placed.step.added:
            left = left.append_column(name, stepped.rows.column(name))
        if left.num_rows == batch.rows.num_rows:
            return replace(batch, rows=left)
        gone = self._gone(placed, batch.rows, stepped, left)
        bystanders = gone if batch.bystanders is None else self._sorted([batch.bystanders, gone])
        return replace(batch, rows=left if left.num_rows else None, bystanders=bystanders)

    def _gone(
        self, placed: PlacedStep, rows: pa.RecordBatch, stepped: Stepped, left: pa.RecordBatch
    ) -> pa.RecordBatch | None:
        """Return one row of each record that no row is left of, with the number that decides its fate."""
        out, decides = np.ones(rows.num_rows, bool), np.full(rows.num_rows, placed.number)
        out[stepped.at] = False
        numbers = {field: number for number, field in placed.failing.items()}
        for failure in stepped.failures:
            decides[failure.at] = numbers[failure.field]
        side = self._stream.side
        own = [f"{self._stream.name}_{name}" for name in self._stream.columns]
        record = [str(side.partition), str(side.offset)]
        value = [VALUE] if self._stream.keeps_value else []
        gone = rows.select([*own, *record, *value]).append_column(MISSED, pa.array(decides))
        gone = gone.filter(pa.array(out))
        gone = gone.take(least(gone, record, -int64(gone.column(MISSED))))
        going_on = pa.Table.from_batches([left.select(record)])
        table = pa.Table.from_batches([gone]).join(going_on, record, join_type="left anti", use_threads=False)
        return self._sorted(table.to_batches()) if table.num_rows else None

    def _sorted(self, pieces: Sequence[pa.RecordBatch | None]) -> pa.RecordBatch | None:
        """Return rows by the key of the stream; `None` without any."""
        there = [piece for piece in pieces if piece is not None]
        if not there:
            return None
        names = [name for name in there[-1].schema.names if name != CODE]
        key = self._stream.side.key
        return key.sorted(key.coded(codec.concat([piece.select(names) for piece in there])))
