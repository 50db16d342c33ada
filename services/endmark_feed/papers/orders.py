"""The orders in which the values of a punctuated stream are closed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Literal

import numpy as np

Order = Literal["asc", "desc", "random", "window-random"]
ORDERS: tuple[Order, ...] = ("asc", "desc", "random", "window-random")


def closing_order(
    order: Order, values: int, horizon: int, random: np.random.Generator
) -> Iterator[tuple[int, list[int]]]:
    """Yield the values 0 to `values` - 1 in the order of closing, each with the values that may come early.

    The papers' word "random" has two readings. The order `random` is a permutation of all values. With
    `window-random`, values come into view in ascending order, and the next one to close is any value in view.

    Args:
        order: the order.
        values: the number of values.
        horizon: the number of later values that may come early; there are fewer at the end.
        random: the source of randomness.
    """
    if order == "random":
        upcoming = iter(random.permutation(values).tolist())
    else:
        upcoming = iter(range(values) if order != "desc" else range(values - 1, -1, -1))
    in_view = deque(islice(upcoming, horizon + 1))
    while in_view:
        if order == "window-random":
            in_view.rotate(-int(random.integers(len(in_view))))
        value = in_view.popleft()
        yield value, list(in_view)
        in_view.extend(islice(upcoming, 1))
