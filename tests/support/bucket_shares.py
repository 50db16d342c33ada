"""The shares that the buckets of a join have of a batch."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from endmark.engine.channels import Buckets
from endmark.operators.stream_batch import StreamBatch
from endmark.state.keys import KeySpec


def shares(batch: StreamBatch, rows: KeySpec, closed_keys: KeySpec, buckets: Buckets) -> list[StreamBatch]:
    """Return each bucket's batch: rows and closed keys of its own keys, and all that is said of any key.

    Args:
        batch: the whole batch.
        rows: the key of the batch's rows.
        closed_keys: the same key in the batch's closed keys.
        buckets: the buckets.
    """
    own_rows, own_keys = (
        _by_bucket(batch.rows, rows, buckets),
        _by_bucket(batch.closed_keys, closed_keys, buckets),
    )
    return [
        replace(batch, rows=own_rows.get(label), closed_keys=own_keys.get(label)) for label in buckets.labels
    ]


def _by_bucket(batch: pa.RecordBatch | None, key: KeySpec, buckets: Buckets) -> dict[int, pa.RecordBatch]:
    return {} if batch is None else dict(buckets.by_key(batch, key))
