"""The papers' streams as Kafka records, and how bursty arrivals are."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import numpy as np
import pytest

from endmark.client import key_hash
from endmark_feed.bursts import arrival_blocks
from endmark_feed.message import EPOCH, Kind
from endmark_feed.papers.names import parse_workload
from endmark_feed.papers.topic_feed import messages

WORKLOAD = parse_workload("punct-random-30-40", values=40)


def test_a_record_says_what_its_event_does() -> None:
    events = list(WORKLOAD.events(3))
    records = list(messages(WORKLOAD, "a", seed=3, partitions=4))
    assert len(records) == len(events)
    for event, record in zip(events, records, strict=True):
        assert (record.topic, record.key, record.due_seconds) == ("a", b"%d" % event.key, event.seconds)
        value = json.loads(record.value)
        if event.closes:
            assert record.kind is Kind.PUNCTUATION
            assert value == {"$punctuation": {"key": {"equals": event.key}}}
        else:
            assert record.kind is Kind.ROW
            at = datetime.fromisoformat(value.pop("at"))
            begin = datetime.fromisoformat(f"{EPOCH}Z")
            assert abs(at - begin - timedelta(seconds=event.seconds)) < timedelta(microseconds=1)
            assert value == {"key": event.key, "serial": event.serial}


def test_whole_seconds_have_microseconds_too() -> None:
    [first, *_] = messages(parse_workload("news-articles-ordered"), "a", seed=1, partitions=1)
    assert json.loads(first.value)["at"] == f"{EPOCH}Z"


def test_a_punctuation_is_where_the_rows_of_its_key_are() -> None:
    records = list(messages(WORKLOAD, "a", seed=3, partitions=4))
    assert all(record.partition == key_hash(record.key) % 4 for record in records)
    assert {record.partition for record in records} == {0, 1, 2, 3}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_bursts_are_self_similar(seed: int) -> None:
    """The variance of the mean of m seconds falls as m^(2H - 2); independent arrivals have H = 0.5, periods
    of Pareto shape 1.5 give 0.75."""
    seconds, widths = 40_000, np.array([10, 20, 40, 80, 160, 320])
    random = np.random.default_rng(seed)
    at = np.concatenate(list(arrival_blocks(random, 2_000_000, float(seconds))))
    counts = np.histogram(at, bins=seconds, range=(0, seconds))[0]
    variances = [counts[: seconds // m * m].reshape(-1, m).mean(axis=1).var() for m in widths]
    slope = np.polyfit(np.log(widths), np.log(variances), 1)[0]
    assert 0.6 < 1 + slope / 2 < 0.95
