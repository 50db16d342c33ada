"""The events of the papers' streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

GAP_SECONDS = 0.010  # mean time between rows of a stream: PWJoin (CIKM'04), section 6


class Event(NamedTuple):
    """A row of a stream, or a punctuation that says that a key will not come again.

    Args:
        seconds: event time since the stream began.
        key: the key of the row, or the key that the punctuation closes.
        serial: the number of the row, counted from 0; a punctuation has the number of the row before it.
        closes: whether the event is a punctuation.
    """

    seconds: float
    key: int
    serial: int
    closes: bool


class Workload(Protocol):
    """A stream whose event times never go back, and in which no row follows the punctuation of its key."""

    def events(self, seed: int) -> Iterator[Event]:
        """Yield the whole stream; equal seeds give equal events."""
        ...
