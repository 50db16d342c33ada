"""The latency of each stream's records that were committed in the last minutes."""

from __future__ import annotations

from endmark.latency import QUANTILES, buckets_of, quantile
from endmark_ops.answers.models import StreamLatency
from endmark_ops.readers.source import Snapshot


def stream_latencies(snapshot: Snapshot) -> list[StreamLatency]:
    """Return the latency of each stream of which records were committed in the last `RECENT_SECONDS`."""
    if snapshot.batch is None:
        return []
    found = []
    for stream in snapshot.streams:
        until_now = buckets_of(snapshot.batch.totals, stream)
        until_then = buckets_of(snapshot.earlier, stream)
        recent = [now - then for now, then in zip(until_now, until_then, strict=True)]
        half, most = (quantile(recent, QUANTILES[name]) for name in ("p50", "p99"))
        if half is not None and most is not None:
            found.append(StreamLatency(stream=stream, p50_seconds=half, p99_seconds=most))
    return found
