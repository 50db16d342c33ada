"""Events: what every stream of the papers consists of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

GAP_SECONDS = 0.010  # mean time between rows of a stream, PWJoin (CIKM'04) section 6


class Event(NamedTuple):
    """A row, or if `closes` the punctuation that its key will not come again.

    `seconds` is event time since the stream began. `serial` counts rows from 0; a punctuation has that of the
    row before it.
    """

    seconds: float
    key: int
    serial: int
    closes: bool


class Workload(Protocol):
    """One stream. Event times never go back, and no row follows the punctuation of its key."""

    def events(self, seed: int) -> Iterator[Event]:
        """The whole stream; equal seeds give equal events."""
        ...
