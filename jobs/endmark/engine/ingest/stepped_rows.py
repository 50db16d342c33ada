"""The rows of one partition in a batch, before and behind the row steps of their stream."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.wire.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endmark.engine.streams import StreamPlan
    from endmark.state.search import Bools
    from endmark.wire.json.records import Parsed

EXPRESSION = "expression"  # the reason of a record on whose row an expression fails


@dataclass(frozen=True)
class SteppedRows:
    """The rows of one partition in a batch.

    A filtered row goes nowhere, but it still promises what its stream has declared, and advances progress.

    Args:
        parsed: the records; its rows have the stream's own columns, and are those on which no step failed.
        kept: a mask of the rows that the steps keep; the others are filtered.
        rows: the rows that the steps keep, with the columns behind the steps.
        filtered: the number of filtered rows, by step.
    """

    parsed: Parsed
    kept: Bools
    rows: pa.RecordBatch
    filtered: Mapping[str, int]

    def where(self, wanted: Bools) -> SteppedRows:
        """Return only some rows, of all as in `parsed`."""
        if wanted.all():
            return self
        own = self.parsed.rows.filter(pa.array(wanted))
        return replace(
            self,
            parsed=replace(self.parsed, rows=own, row_at=self.parsed.row_at[wanted]),
            kept=self.kept[wanted],
            rows=self.rows.filter(pa.array(wanted[self.kept])),
        )


def through_steps(stream: StreamPlan, parsed: Parsed, values: pa.Array) -> SteppedRows:
    """Run a stream's row steps; a record on whose row an expression fails is rejected.

    Args:
        stream: the plan of the stream.
        parsed: the parsed records.
        values: the bytes of all records.
    """
    if not stream.steps:
        return SteppedRows(parsed, np.ones(parsed.rows.num_rows, bool), parsed.rows, {})
    # DuckDB takes a tenth of a second to import, and few streams have steps.
    from endmark.expressions.row_steps import run

    stepped = run(stream.steps, parsed.rows)
    kept, sound = np.zeros(parsed.rows.num_rows, bool), np.ones(parsed.rows.num_rows, bool)
    kept[stepped.at] = True
    sound[[failure.at for failure in stepped.failures]] = False
    positions = [int(parsed.row_at[failure.at]) for failure in stepped.failures]
    failed = [
        Rejection(at, EXPRESSION, failure.error, values[at].as_py())
        for at, failure in zip(positions, stepped.failures, strict=True)
    ]
    rejections = sorted([*parsed.rejections, *failed], key=lambda rejection: rejection.at)
    parsed = replace(parsed, rejections=rejections)
    return SteppedRows(parsed, kept, stepped.rows, stepped.filtered).where(sound)
