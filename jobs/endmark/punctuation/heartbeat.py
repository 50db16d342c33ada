"""Heartbeats: punctuations that rule out all event times up to one, and so advance progress.

A heartbeat is a `between` without a lower end, on the column of event time alone:

    {"$punctuation": {"bid_at": {"between": {"to": "2026-01-31T12:00:00Z"}}}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.domain import Domain
from endmark.punctuation.algebra import spans_of
from endmark.punctuation.pattern import Between

if TYPE_CHECKING:
    from endmark.punctuation.punctuation import Punctuation


def first_possible(promise: Punctuation, event_time: str | None) -> int | None:
    """Return the first event time that a heartbeat leaves possible, in microseconds since 1970.

    Args:
        promise: any punctuation.
        event_time: the column of event time; `None` if the stream has no heartbeats.

    Returns:
        The time, or `None` if the punctuation is no heartbeat. A heartbeat without an upper end rules out all
        times, and leaves the first microsecond behind them.
    """
    match promise.patterns:
        case ((name, Between(low=None) as pattern),) if name == event_time:
            spans = spans_of(pattern, Domain.TIMESTAMP)
            end: int = spans[0][1] if spans else Domain.TIMESTAMP.bottom
            return end
    return None
