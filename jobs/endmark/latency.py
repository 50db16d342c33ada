"""The latency of records: the time from Kafka's timestamp to the commit of the batch that read the record.

Kafka's timestamp is the producer's time, unless the topic has `message.timestamp.type=LogAppendTime`. A task
counts the records of its share by timestamp, before anybody knows when the batch will be committed. The sink
makes latencies of these counts once the tables are committed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from endmark.metrics import Samples, sample

# Seconds. A full batch takes about a second, so there the buckets are narrow; a job that catches up reads
# records of the last days.
BOUNDS = (0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 7.5, 10, 15, 30, 60, 120, 300, 900, 3600, 14_400, 86_400)
LABELS = (*(f"{bound:g}" for bound in BOUNDS), "+Inf")
QUANTILES = {"p50": 0.5, "p99": 0.99}


def latency_samples(shares: Iterable[Mapping[str, Mapping[str, int]]], committed_at: float) -> Samples:
    """Return the samples of a batch: records by latency, the sum of latencies, and quantiles, by stream.

    A timestamp after the commit comes from a clock that is ahead; its latency is zero.

    Args:
        shares: the counts of each task, by stream and by the text of the timestamp in Unix milliseconds.
        committed_at: the time of the commit, in Unix seconds.
    """
    by_stream: dict[str, Counter[int]] = {}
    for share in shares:
        for stream, counts in share.items():
            found = by_stream.setdefault(stream, Counter())
            found.update({int(time): count for time, count in counts.items()})
    samples: Samples = {}
    for stream, found in by_stream.items():
        if not found:  # none of its records has a timestamp
            continue
        latencies = sorted(
            (round(max(0.0, committed_at - time / 1000), 3), count) for time, count in found.items()
        )
        for latency, count in latencies:
            key = sample("latency_records_total", stream=stream, up_to=LABELS[bisect_left(BOUNDS, latency)])
            samples[key] = samples.get(key, 0.0) + count
        seconds = sum(latency * count for latency, count in latencies)
        samples[sample("latency_seconds_total", stream=stream)] = seconds
        ranks = list(accumulate(count for _, count in latencies))
        for name, part in QUANTILES.items():
            latency, _ = latencies[bisect_left(ranks, part * ranks[-1])]
            samples[sample("batch_latency_seconds", stream=stream, percentile=name)] = latency
    return samples


def buckets_of(totals: Mapping[str, float], stream: str) -> list[float]:
    """Return the number of a stream's records in each bucket of `BOUNDS`, and in the one above."""
    keys = (sample("latency_records_total", stream=stream, up_to=label) for label in LABELS)
    return [totals.get(key, 0.0) for key in keys]


def quantile(buckets: Sequence[float], share: float) -> float | None:
    """Estimate the latency that a share of records does not exceed, as Prometheus does.

    Latencies are taken as even within a bucket. Of records above the greatest bound only this bound is known.

    Args:
        buckets: the number of records in each bucket.
        share: the share of records, from 0 to 1.

    Returns:
        Seconds; `None` without records.

    >>> quantile([0.0, 10.0, *[0.0] * (len(BOUNDS) - 1)], 0.5)
    0.175
    """
    ranks = list(accumulate(buckets))
    if ranks[-1] <= 0:
        return None
    wanted = share * ranks[-1]
    at = bisect_left(ranks, wanted)
    if at == len(BOUNDS):
        return float(BOUNDS[-1])
    lower, before = (BOUNDS[at - 1], ranks[at - 1]) if at else (0.0, 0.0)
    within = (wanted - before) / buckets[at] if buckets[at] else 0.0
    return lower + (BOUNDS[at] - lower) * within
