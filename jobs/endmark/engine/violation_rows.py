"""Rows of the violations table, made from rows that break a promise."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from endmark.engine.channels import VIOLATION_SCHEMA, report_rows
from endmark.operators.stream_join.key_sets import UNKNOWN
from endmark.punctuation.columns import domain_of_type
from endmark.punctuation.scalars import scalar_of
from endmark.punctuation.wire_json import pattern_to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from endmark.engine.streams import StreamPlan
    from endmark.punctuation.punctuation import Punctuation

NULL = "null"  # the reason of a row without a whole key or, on a frame, without a time


def violation_rows(
    stream: StreamPlan, reason: str, rows: pa.RecordBatch, promises: Sequence[Punctuation | None] = ()
) -> pa.RecordBatch:
    """Make rows of the violations table. They are rare, so they are made a row at a time.

    Args:
        stream: the stream of the rows.
        reason: the reason why they are violations.
        rows: the rows.
        promises: the promise that each row broke, by the names that both sides share. `None` stands for a
            promise on columns beside the key. It is empty if the rows broke none.
    """
    kept = []
    for at, row in enumerate(rows.to_pylist()):
        record = {name: row[f"{stream.side.name}_{name}"] for name in stream.columns}
        read = stream.read_from(row[str(stream.side.partition)])
        kept.append(
            {
                "topic": read.topic,
                "partition": read.member.partition(row[str(stream.side.partition)]),
                "offset": row[stream.side.offset],
                "reason": reason,
                "event_time": row[stream.side.time],
                "record": json.dumps(record, default=scalar_of),
                **(_named(read, promises[at]) if promises else {}),
            }
        )
    return report_rows(kept, VIOLATION_SCHEMA)


def _named(stream: StreamPlan, promise: Punctuation | None) -> dict[str, Any]:
    if promise is None:
        return {}
    partition, offset = promise.origin or (None, None)
    if partition is not None:
        partition = stream.member.partition(partition)
    return {
        "promise": json.dumps(named_promise(stream, promise), sort_keys=True),
        "promise_partition": partition,
        "promise_offset": None if offset == UNKNOWN else offset,
    }


def named_promise(stream: StreamPlan, promise: Punctuation) -> dict[str, Any]:
    """Return the patterns of a promise on the key as JSON, by the stream's own names."""
    own = dict(zip(stream.side.key.shared.columns, stream.on, strict=True))
    types = stream.side.schema
    return {
        own[name]: pattern_to_json(
            pattern, domain_of_type(types.field(f"{stream.side.name}_{own[name]}").type)
        )
        for name, pattern in promise.patterns
    }
