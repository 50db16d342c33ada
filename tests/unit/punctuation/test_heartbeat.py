"""What a heartbeat is, and the first time that it leaves possible."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from endmark.punctuation.heartbeat import first_possible
from endmark.punctuation.pattern import Anything, Between, Equals, Nothing, OneOf, Pattern
from endmark.punctuation.punctuation import Punctuation

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
AT = EPOCH + timedelta(seconds=7)
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
YEARS = 253_402_300_800_000_000  # microseconds until the year 10000


def first(**patterns: Pattern) -> int | None:
    return first_possible(Punctuation.of("bids", patterns), "at")


@pytest.mark.parametrize(
    ("pattern", "time"),
    [
        (Between(high=AT), 7_000_001),
        (Between(high=AT, high_open=True), 7_000_000),
        (Between(high=LAST), YEARS),
        (Between(), YEARS),
        (Between(high=FIRST, high_open=True), (FIRST - EPOCH) // timedelta(microseconds=1)),
        (Between(FIRST, AT), None),
        (Between(low=AT), None),
        (Equals(AT), None),
        (OneOf(frozenset([AT, FIRST])), None),
        (Anything(), None),
        (Nothing(), None),
    ],
)
def test_a_heartbeat_has_no_lower_end(pattern: Pattern, time: int | None) -> None:
    """All other patterns on the event time are plain promises, or none."""
    assert first(at=pattern) == time


def test_a_heartbeat_is_on_the_event_time_alone() -> None:
    """A column of any value does not count."""
    assert first(due=Between(high=AT)) is None
    assert first(at=Between(high=AT), item=Equals(1)) is None
    assert first(at=Between(high=AT), item=Anything()) == 7_000_001
    assert first_possible(Punctuation.of("bids", {"at": Between(high=AT)}), None) is None
