"""The streams of PWJoin's experiments (CIKM'04, section 6): clusters, punctuated segments, uniform keys.

The paper leaves some points open. Here gaps are exponential, and a punctuation has the time of the row before
it. Sizes are Poisson numbers, and at least one row. A row whose value does not match has one of the next
`horizon` values. The two inputs of a join are streams of different seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from endmark_feed.options import random_stream
from endmark_feed.papers.event import GAP_SECONDS, Event
from endmark_feed.papers.orders import Order, closing_order


class _Clock:
    """A clock that turns keys into rows, which come as Poisson arrivals."""

    def __init__(self, seed: int) -> None:
        self._gaps = random_stream(seed, "gaps")
        self._seconds = 0.0
        self._serial = -1

    def rows(self, keys: list[int]) -> Iterator[Event]:
        for gap, key in zip(self._gaps.exponential(GAP_SECONDS, len(keys)).tolist(), keys, strict=True):
            self._seconds += gap
            self._serial += 1
            yield Event(self._seconds, key, self._serial, closes=False)

    def punctuation(self, key: int) -> Event:
        return Event(self._seconds, key, self._serial, closes=True)


@dataclass(frozen=True)
class Clusters:
    """The stream `cluster-[order]-[size]`: for each value, about `size` rows and then its punctuation.

    Args:
        order: the order of the values.
        size: mean rows of a value; 1 is exactly one row, so that keys are unique.
        values: the number of values.
    """

    order: Order
    size: int
    values: int

    def events(self, seed: int) -> Iterator[Event]:
        random, clock = random_stream(seed, "clusters"), _Clock(seed)
        for value, _ in closing_order(self.order, self.values, 0, random):
            size = 1 if self.size == 1 else max(1, int(random.poisson(self.size)))
            yield from clock.rows([value] * size)
            yield clock.punctuation(value)


@dataclass(frozen=True)
class Segments:
    """The stream `punct-[order]-[segment]-[match]`, whose segments each end with a punctuation.

    A segment has about `segment` rows. About `match` percent of them, and always the last one, have the value
    that the punctuation closes. The others have values that are closed later.

    Args:
        order: the order in which values are closed.
        segment: mean rows of a segment.
        match: mean percentage of rows with the value that is closed.
        values: the number of values, and so of segments.
        horizon: the number of next values that the other rows may have.
        useless: whether punctuations close values that no row ever has (figure 10); rows are the same.
    """

    order: Order
    segment: int
    match: int
    values: int
    horizon: int
    useless: bool = False

    def events(self, seed: int) -> Iterator[Event]:
        random, clock = random_stream(seed, "segments"), _Clock(seed)
        for value, later in closing_order(self.order, self.values, self.horizon, random):
            yield from clock.rows(self._keys(value, later, random))
            yield clock.punctuation(value + self.values if self.useless else value)

    def _keys(self, value: int, later: list[int], random: np.random.Generator) -> list[int]:
        rows = max(1, int(random.poisson(self.segment)))
        share = min(100, int(random.poisson(self.match)))
        others = rows - max(1, round(rows * share / 100)) if later else 0
        keys = np.full(rows, value)
        places = random.choice(rows - 1, others, replace=False)
        keys[places] = random.choice(later or [value], others)
        return [int(key) for key in keys]


@dataclass(frozen=True)
class Uniform:
    """The stream `uniform-[domain]`: rows with any of `domain` keys, without punctuations (figure 12)."""

    domain: int
    rows: int

    def events(self, seed: int) -> Iterator[Event]:
        keys = random_stream(seed, "uniform keys").integers(self.domain, size=self.rows)
        return _Clock(seed).rows(keys.tolist())
