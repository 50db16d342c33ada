"""Rows of the violations table."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa

from endmark.spark.channels import VIOLATION_SCHEMA

if TYPE_CHECKING:
    from datetime import date

    from endmark.spark.streams import StreamPlan


def violation_rows(stream: StreamPlan, reason: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    """What the violations table keeps of rows that broke a promise: rare, so a row at a time will do."""
    kept = []
    for row in rows.to_pylist():
        record = {name: row[f"{stream.name}_{name}"] for name in stream.columns}
        kept.append(
            {
                "topic": stream.topic,
                "partition": row[stream.side.partition],
                "offset": row[stream.side.offset],
                "reason": reason,
                "event_time": row[stream.side.time],
                "record": json.dumps(record, default=_text),
            }
        )
    return pa.RecordBatch.from_pylist(kept, schema=VIOLATION_SCHEMA)


def _text(value: date | Decimal) -> str:
    return str(value) if isinstance(value, Decimal) else value.isoformat()
