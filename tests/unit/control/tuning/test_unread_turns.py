"""Turns that no batch has read yet, of a real control topic."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from endmark.control.tuning.autotune import WHO
from endmark.control.tuning.unread_turns import UnreadTurns
from endmark.embedded.broker import Broker
from endmark.kafka.sending import send
from endmark.wire.control import PULSE, Turn
from endmark_feed.producer import create_topics

SECONDS = 90.0


def found(turns: UnreadTurns, read: int) -> bool:
    """Return whether an unread turn is found soon."""
    deadline = time.monotonic() + SECONDS
    while not turns.beyond(read) and time.monotonic() < deadline:
        time.sleep(0.05)
    return turns.beyond(read)


OTHERS = {
    "pulse": PULSE,
    "none": b"no control record",
    "own": Turn("steps.known.lookup.page_rows", 64, WHO).written(),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_a_turn_of_somebody_is_found_until_it_was_read(broker: Broker, kind: str) -> None:
    """Not what the job sends itself, nor what is none, before it or behind it."""
    topic, other = f"unread-{kind}", OTHERS[kind]
    create_topics(broker.bootstrap, {topic: 1})
    records = [Turn("batch.every", 1, "Ann").written(), other, Turn("batch.every", 2, "Ben").written(), other]
    for record in records[:2]:
        send(broker.bootstrap, topic, record)
    with closing(UnreadTurns(broker.bootstrap, topic, 1)) as turns:
        turns.beyond(1)
        time.sleep(1)
        assert not turns.beyond(1)
        for record in records[2:]:
            send(broker.bootstrap, topic, record)
        assert found(turns, 1)
        assert turns.beyond(2)
        assert not turns.beyond(3)


def test_without_a_broker_there_is_none() -> None:
    """A missing broker is the query's error, so nothing is raised here."""
    with closing(UnreadTurns("127.0.0.1:1", "unread", 0)) as turns:
        assert not turns.beyond(0)
