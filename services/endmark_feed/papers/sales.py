"""The stream of HYBRIDJOIN's experiments (UoA-SE-2010-2, section 5): sales of products.

A sale names a product by Zipf's law. Sales come in self-similar bursts. Products are sorted by popularity, so
product 1 is sold most often.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from endmark_feed.bursts import arrival_blocks
from endmark_feed.options import random_stream
from endmark_feed.papers.event import Event
from endmark_feed.zipf import zipf_keys


@dataclass(frozen=True)
class Sales:
    """The stream `zipf-[products]-[exponent]-[rate]`: rows in bursts, and no punctuation.

    Args:
        products: rows of R, and so the number of keys, 1 to `products`.
        exponent: exponent of the keys' Zipf distribution; 0 is uniform.
        rate: mean rows a second.
        rows: the number of rows.
    """

    products: int
    exponent: float
    rate: int
    rows: int

    def events(self, seed: int) -> Iterator[Event]:
        random, serial = random_stream(seed, "sold products"), count()
        for at in arrival_blocks(random_stream(seed, "bursts"), self.rows, self.rows / self.rate):
            keys = zipf_keys(random, at.size, self.exponent, self.products)
            for seconds, key in zip(at.tolist(), keys.tolist(), strict=True):
                yield Event(seconds, key, next(serial), closes=False)
