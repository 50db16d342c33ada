"""The latency of records by Kafka's timestamps."""

from __future__ import annotations

import json

import numpy as np
import pytest

from endmark.engine.ingest.record_times import count_times
from endmark.latency import BOUNDS, buckets_of, latency_samples, quantile

NOW = 1.8e9


def samples(ages: list[float], committed_after: float = 0.0) -> dict[str, float]:
    """Return the samples of one task's records, given their ages in seconds."""
    times = np.array([round((NOW - age) * 1e6) for age in ages], np.int64)
    share = json.loads(json.dumps({"bids": count_times(times, NOW)}))
    return latency_samples([share], NOW + committed_after)


@pytest.mark.parametrize("age", [0.0, 0.02, 0.4, 3.3, 77.0, 5_000.0, 9e7])
def test_a_record_counts_with_its_age_at_the_commit(age: float) -> None:
    """Rounding moves it by no more than a 32nd of its age when it is read, or a millisecond."""
    found = samples([age], committed_after=2.0)

    assert abs(found["latency_seconds_total{stream=bids}"] - (age + 2)) <= age / 32 + 0.001
    assert found["batch_latency_seconds{percentile=p50,stream=bids}"] == pytest.approx(age + 2, rel=0.04)
    assert sum(buckets_of(found, "bids")) == 1


def test_records_are_counted_into_the_buckets_of_their_latency() -> None:
    """A bucket has the latencies up to its bound. The last one has all that are greater than a day."""
    found = samples([0.0, 0.0, 0.008, 100_000.0], committed_after=0.1)

    assert {key: value for key, value in found.items() if "up_to" in key} == {
        "latency_records_total{stream=bids,up_to=0.1}": 2,
        "latency_records_total{stream=bids,up_to=0.25}": 1,
        "latency_records_total{stream=bids,up_to=+Inf}": 1,
    }
    assert buckets_of(found, "bids") == [2, 1, *[0] * (len(BOUNDS) - 2), 1]
    assert buckets_of(found, "items") == [0] * (len(BOUNDS) + 1)


def test_a_clock_that_is_ahead_counts_as_no_latency() -> None:
    """A timestamp before the commit counts as it is, even if it is after the time of the read."""
    ahead, little = samples([-3600.0], 2.0), samples([-0.5], 2.0)

    assert ahead["latency_seconds_total{stream=bids}"] == 0
    assert buckets_of(ahead, "bids")[0] == 1
    assert little["latency_seconds_total{stream=bids}"] == pytest.approx(1.5, abs=0.02)


def test_any_timestamp_is_counted_but_none() -> None:
    """A producer may send any number. Kafka's value for a record without a timestamp is -1 ms."""
    times = np.array([-1000, 0, 2**63 - 1, round(NOW * 1e6)], np.int64)
    counts = count_times(times, NOW)

    assert sum(counts.values()) == 3
    assert buckets_of(latency_samples([{"bids": {str(k): v for k, v in counts.items()}}], NOW), "bids") == [
        2,
        *[0] * (len(BOUNDS) - 1),
        1,
    ]
    assert latency_samples([{"bids": {}}], NOW) == {}


def test_a_task_reports_few_numbers() -> None:
    """They are some hundreds for a hundred thousand different timestamps of the last days."""
    ages = 3e5 * np.random.default_rng(7).random(100_000) ** 4
    counts = count_times(((NOW - ages) * 1e6).astype(np.int64), NOW)

    assert sum(counts.values()) == 100_000
    assert len(counts) < 500


def test_shares_of_tasks_add_up() -> None:
    """Streams stay apart. The order of latencies, not of tasks, decides on quantiles."""
    at = str(round(NOW * 1000))
    early = str(round(NOW * 1000) - 8000)
    found = latency_samples([{"bids": {at: 98}, "items": {at: 1}}, {"bids": {early: 2}}], NOW + 1)

    assert found["batch_latency_seconds{percentile=p50,stream=bids}"] == 1
    assert found["batch_latency_seconds{percentile=p99,stream=bids}"] == 9
    assert found["latency_seconds_total{stream=bids}"] == 98 + 18
    assert sum(buckets_of(found, "items")) == 1


def test_quantiles_of_buckets() -> None:
    """Latencies are even within a bucket. Above the last bound, only this bound is known."""
    none = [0.0] * (len(BOUNDS) - 2)
    buckets = [0.0, 60.0, 40.0, *none]

    assert [quantile(buckets, share) for share in (0.3, 0.6, 0.8)] == pytest.approx([0.175, 0.25, 0.375])
    assert quantile([10.0, 0.0, 0.0, *none], 0.5) == 0.05
    assert quantile([0.0, 0.0, 0.0, *none[:-1], 5.0], 0.5) == BOUNDS[-1]
    assert quantile([0.0, 0.0, 0.0, *none], 0.5) is None
