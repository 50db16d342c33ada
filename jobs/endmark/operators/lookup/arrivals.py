"""One batch of a stream on its way through the lookup."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from endmark.operators.stream_join.clustering import RunNews

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class Arrivals:
    """The share of one batch of one stream that one bucket gets.

    Args:
        rows: data rows.
        bystanders: rows that are not to be joined, but may be violations.
        punctuations: keys closed, as `SideInput` has them.
        promises: other punctuations, as they were packed.
        newest: newest event time in microseconds by partition.
        marks, heard, runs: as `SideInput` has them.
    """

    rows: pa.RecordBatch | None = None
    bystanders: pa.RecordBatch | None = None
    punctuations: pa.RecordBatch | None = None
    promises: list[dict[str, Any]] = field(default_factory=list)
    newest: dict[int, int] = field(default_factory=dict)
    marks: pa.RecordBatch | None = None
    heard: dict[int, tuple[int, int]] = field(default_factory=dict)
    runs: RunNews = field(default_factory=RunNews)

    def said(self) -> dict[str, pa.RecordBatch | None]:
        """Its statements about keys and runs, by name."""
        return {"closed": self.punctuations, "marks": self.marks, **self.runs._asdict()}
