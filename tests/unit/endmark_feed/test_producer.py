"""Pacing against a clock of our own, and what is said when there is no broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from endmark.client import Delivery
from endmark.embedded.broker import Broker
from endmark.errors import ConfigError, MissingPartError
from endmark_feed.message import Kind, Message
from endmark_feed.options import FeedOptions, Partitions
from endmark_feed.producer import CHUNK, NAP_SECONDS, create_topics, when_due


class Clock:
    """Time that passes by sleeping, and by what the test says."""

    def __init__(self) -> None:
        self.now = 0.0
        self.naps: list[float] = []

    def elapsed(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.naps.append(seconds)
        self.now += seconds


def message(due: float) -> Message:
    return Message("bids", 0, b"1", b"{}", due, Kind.BID)


def test_nothing_goes_out_before_it_is_due_or_much_after() -> None:
    clock = Clock()
    planned = [message(index * 0.003) for index in range(5_000)]
    sent = []
    for chunk in when_due(planned, clock.elapsed, clock.sleep):
        assert all(m.due_seconds <= clock.now + 1e-9 for m in chunk)
        assert all(clock.now - m.due_seconds <= NAP_SECONDS + 1e-9 for m in chunk)
        sent += chunk
    assert sent == planned
    assert clock.now == pytest.approx(15, abs=0.02)
    assert min(clock.naps) >= NAP_SECONDS


def test_what_is_late_follows_at_once_in_small_chunks() -> None:
    clock = Clock()
    clock.now = 100.0
    planned = [message(index * 0.001) for index in range(4 * CHUNK + 1)]
    chunks = list(when_due(planned, clock.elapsed, clock.sleep))
    assert [len(chunk) for chunk in chunks] == [CHUNK] * 4 + [1]
    assert clock.naps == []


def test_a_slow_broker_delays_records_but_loses_none() -> None:
    clock = Clock()
    planned = [message(index * 0.001) for index in range(3_000)]
    sent = []
    for chunk in when_due(planned, clock.elapsed, clock.sleep):
        clock.now += 0.002 * len(chunk)
        sent += chunk
    assert sent == planned
    assert clock.now == pytest.approx(6, abs=0.1)


def test_an_empty_run_sends_nothing() -> None:
    assert list(when_due([], lambda: 0.0)) == []


@pytest.mark.parametrize(
    "connect", [lambda to: create_topics(to, {"items": 1}, 1.0), lambda to: Delivery(to, 1.0)]
)
def test_no_broker_is_said(connect: Callable[[str], object], free_port: int) -> None:
    says = rf"broker at 127\.0\.0\.1:{free_port}: .*; start the broker"
    with pytest.raises(MissingPartError, match=says):
        connect(f"127.0.0.1:{free_port}")


@pytest.mark.parametrize(
    ("topic", "partitions", "says"),
    [
        ("a/b", 1, r"refuses to create a/b \(1 partitions\): a name has at most 249 letters"),
        (
            "refused-partitions",
            100_000,
            r"refuses to create .* \(100000 partitions\): a policy of the brokers",
        ),
    ],
)
def test_topics_that_kafka_refuses_are_named(broker: Broker, topic: str, partitions: int, says: str) -> None:
    """The whole request was shown, with the advice to start the broker."""
    with pytest.raises(ConfigError, match=says):
        create_topics(broker.bootstrap, {topic: partitions})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("seed", -1),
        ("minutes", 0.0),
        ("minutes", float("nan")),
        ("rate", 0.5),
        ("sellers", 0),
        ("open_items", 0),
        ("zipf_exponent", -0.1),
        ("bad_rate", 0.3),
    ],
)
def test_options_out_of_range_are_refused_by_name(option: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"feed option {option} is {value}; choose a number from"):
        FeedOptions(**{option: value})  # type: ignore[arg-type]


def test_partitions_out_of_range_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"feed option partitions\.bids is 0"):
        Partitions(bids=0)
