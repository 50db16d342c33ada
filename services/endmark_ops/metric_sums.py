"""Sums of a metric over its series in the samples of a batch."""

from __future__ import annotations

from collections.abc import Mapping

from endmark.metrics import parse


def summed(samples: Mapping[str, float], metric: str) -> float:
    """Return the sum of a metric over its series, 0 if there are none.

    >>> summed({"rows_total{stream=bids}": 2.0, "rows_total{stream=items}": 1.0, "keys": 7}, "rows_total")
    3.0
    """
    return sum(value for key, value in samples.items() if parse(key)[0] == metric)
