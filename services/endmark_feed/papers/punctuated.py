"""The streams of PWJoin's experiments (CIKM'04, section 6): clusters, punctuated segments, uniform keys.

What the paper leaves open is settled so: gaps are exponential, a punctuation has the time of the row before
it, sizes are Poisson and at least one row, and values that do not match are drawn from the next `horizon`
ones. The two inputs of a join are streams of different seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from endmark_feed.options import random_stream
from endmark_feed.papers.event import GAP_SECONDS, Event
from endmark_feed.papers.orders import Order, closing_order


class _Clock:
    """Turns keys into rows, in Poisson arrivals."""

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
    """`cluster-[order]-[size]`: about `size` rows of one value, then its punctuation, and on to the next.
    Size 1 is exactly one row, so that keys are unique."""

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
    """`punct-[order]-[segment]-[match]`: about `segment` rows, of which about `match` percent, the last one
    always, have the value of the punctuation that ends the segment; the others' values are yet to be closed.

    With `useless` the rows are the same but punctuations close values that no row ever has (figure 10).
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
    """`uniform-[domain]`: any of `domain` keys at any time, and no punctuation (figure 12)."""

    domain: int
    rows: int

    def events(self, seed: int) -> Iterator[Event]:
        keys = random_stream(seed, "uniform keys").integers(self.domain, size=self.rows)
        return _Clock(seed).rows(keys.tolist())
