"""The options of the auction's workload, and the random numbers of all workloads.

Equal options give equal records, byte for byte and partition by partition.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from endmark.errors import ConfigError


def random_stream(seed: int, purpose: str) -> np.random.Generator:
    """Return a random generator for one purpose. Drawing from it does not change other generators."""
    return np.random.default_rng([seed, *purpose.encode()])


@dataclass(frozen=True)
class Partitions:
    """The number of partitions of each topic of the auction, 1 to 1000."""

    items: int = 2
    bids: int = 4

    def __post_init__(self) -> None:
        _check("partitions.items", self.items, 1, 1000)
        _check("partitions.bids", self.bids, 1, 1000)


@dataclass(frozen=True)
class FeedOptions:
    """The options of the auction's workload.

    Args:
        seed: equal seeds give equal records.
        minutes: length of the run, in event time and in real time.
        rate: mean records a second over both topics, without bad records and the closing sale at the end.
        sellers: rows of the master table; seller ids are 1 to `sellers`.
        open_items: auctions that take bids at the same time, once the run is warm.
        zipf_exponent: skew of sellers over items; 0 is uniform.
        bad_rate: share of bad records among all records.
        bursts: whether records come in self-similar bursts, or evenly.
        partitions: the number of partitions of each topic.

    Raises:
        ConfigError: an option is out of its range.
    """

    seed: int = 1
    minutes: float = 5.0
    rate: float = 2_000.0
    sellers: int = 500_000
    open_items: int = 2_000
    zipf_exponent: float = 1.0
    bad_rate: float = 0.0005
    bursts: bool = True
    partitions: Partitions = field(default_factory=Partitions)

    def __post_init__(self) -> None:
        _check("seed", self.seed, 0, 2**63 - 1)
        _check("minutes", self.minutes, 0.01, 1_440)
        _check("rate", self.rate, 1, 200_000)
        _check("sellers", self.sellers, 1, 10_000_000)
        _check("open_items", self.open_items, 1, 1_000_000)
        _check("zipf_exponent", self.zipf_exponent, 0, 5)
        _check("bad_rate", self.bad_rate, 0, 0.25)

    @property
    def seconds(self) -> float:
        return self.minutes * 60.0

    @property
    def ticks(self) -> int:
        """The number of records before the closing sale, without bad ones."""
        return max(1, round(self.rate * self.seconds))

    def random_stream(self, purpose: str) -> np.random.Generator:
        return random_stream(self.seed, purpose)


def _check(name: str, value: float, low: float, high: float) -> None:
    # This form of the comparison also refuses NaN, which is neither less nor greater than any number.
    if not low <= value <= high:
        raise ConfigError(f"feed option {name} is {value}; choose a number from {low:,} to {high:,}")
