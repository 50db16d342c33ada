"""The lots of the auction: an endless, seeded sequence of items whose auctions are decided beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from endmark.client import key_hash
from endmark_feed.options import FeedOptions
from endmark_feed.zipf import zipf_ranks

MOST_BIDS = 40  # bids per auction are uniform from 0, so 20 on average and some auctions get none
RACE_SHARE = 0.02  # items that are listed after their first bids
RACE_SECONDS = 2.0
RELISTABLE_SHARE = 0.2  # items that the items stream does not close while the run lasts
RELIST_SHARE = 0.1  # of the relistable items
# The join window keeps bids for 10 s. So some second listings meet the bids of the first, and some do not.
RELIST_SECONDS = 15.0
UNKNOWN_SELLER_SHARE = 0.005
CATEGORIES = ("art", "bücher", "cameras", "coins", "garden", "jewellery", "maps", "música", "stamps", "toys")

_BLOCK = 4_096


@dataclass(slots=True)
class Auction:
    """An item and the course of its auction. Money is in cents, time in seconds of event time.

    Args:
        item_id: the number of the item, counted from 1.
        key: the item id as the key of its records.
        items_partition: the partition of its records in the topic of items.
        bids_partition: the partition of its records in the topic of bids.
        seller_id: the seller; an id above `FeedOptions.sellers` is not in the master table.
        category: one of `CATEGORIES`.
        start_price: the price that the item is listed with.
        highest: the highest bid so far, the start price before the first one.
        bids_left: the number of bids that come before the auction closes.
        listing_delay: the time from the opening of the auction until the item is listed.
        relistable: whether the items stream leaves the item open, so that it may be listed again.
        relist_after: the time from closing until the item is listed again; `None`: it is not.
    """

    item_id: int
    key: bytes
    items_partition: int
    bids_partition: int
    seller_id: int
    category: str
    start_price: int
    highest: int
    bids_left: int
    listing_delay: float
    relistable: bool
    relist_after: float | None


def auctions(options: FeedOptions) -> Iterator[Auction]:
    """Yield auctions for ever, with item ids from 1 on."""
    random = options.random_stream("auctions")
    # If popularity followed the order of keys, all hot sellers would be on the first pages of R.
    seller_of_rank = options.random_stream("seller ranks").permutation(options.sellers) + 1
    item_id = 0
    while True:
        ranks = zipf_ranks(random.random(_BLOCK), options.zipf_exponent, options.sellers)
        unknown = random.random(_BLOCK) < UNKNOWN_SELLER_SHARE
        sellers = np.where(unknown, options.sellers + ranks, seller_of_rank[ranks - 1])
        raced = random.random(_BLOCK) < RACE_SHARE
        relistable = random.random(_BLOCK) < RELISTABLE_SHARE
        relisted = relistable & (random.random(_BLOCK) < RELIST_SHARE)
        relist_after = random.uniform(0, RELIST_SECONDS, _BLOCK)
        for seller_id, category, price, bids, delay, is_relistable, after in zip(
            sellers.tolist(),
            random.integers(len(CATEGORIES), size=_BLOCK).tolist(),
            random.integers(100, 50_000, size=_BLOCK).tolist(),
            random.integers(MOST_BIDS, endpoint=True, size=_BLOCK).tolist(),
            np.where(raced, random.uniform(0, RACE_SECONDS, _BLOCK), 0.0).tolist(),
            relistable.tolist(),
            np.where(relisted, relist_after, np.nan).tolist(),
            strict=True,
        ):
            item_id += 1
            key = b"%d" % item_id
            digest = key_hash(key)
            yield Auction(
                item_id=item_id,
                key=key,
                items_partition=digest % options.partitions.items,
                bids_partition=digest % options.partitions.bids,
                seller_id=seller_id,
                category=CATEGORIES[category],
                start_price=price,
                highest=price,
                bids_left=bids,
                listing_delay=delay,
                relistable=is_relistable,
                relist_after=None if after != after else after,  # noqa: PLR0124  # NaN
            )
