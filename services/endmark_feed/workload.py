"""The auction's workload: a deterministic sequence of records, in the order of publishing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from endmark_feed.bad_records import Spoilable, with_bad_records
from endmark_feed.bursts import arrival_blocks, even_blocks
from endmark_feed.house import AuctionHouse, Tick
from endmark_feed.message import BIDS, EPOCH, ITEMS, Message
from endmark_feed.options import FeedOptions

BIDDERS = 1_000_000
MOST_RAISED = 2_500  # the most cents by which a bid exceeds the bid before
_STREAMS = {ITEMS: Spoilable("listed_at", "item_id"), BIDS: Spoilable("bid_at", "item_id")}


def messages(options: FeedOptions) -> Iterator[Message]:
    """Yield every record of a run of the auction. Event times never go back, except in bad records."""
    random = options.random_stream("bad records")
    return with_bad_records(_good_messages(options), _STREAMS, options.bad_rate, random)


def _good_messages(options: FeedOptions) -> Iterator[Message]:
    house = AuctionHouse(options)
    for tick in _ticks(options):
        yield house.message(tick)
    end = Tick(options.seconds, _stamps(np.array([options.seconds]))[0], slot=0, bidder_id=0, raise_by=0)
    yield from house.closing_sale(end)


def _ticks(options: FeedOptions) -> Iterator[Tick]:
    random = options.random_stream("bids")
    if options.bursts:
        arrivals = arrival_blocks(options.random_stream("bursts"), options.ticks, options.seconds)
    else:
        arrivals = even_blocks(options.ticks, options.seconds)
    for due in arrivals:
        # Squaring favours low slots. Auctions in low slots end within a second; those in high slots live
        # long.
        slots = (random.random(due.size) ** 2 * options.open_items).astype(np.int64)
        yield from map(
            Tick,
            due.tolist(),
            _stamps(due),
            slots.tolist(),
            random.integers(1, BIDDERS, endpoint=True, size=due.size).tolist(),
            random.integers(1, MOST_RAISED, endpoint=True, size=due.size).tolist(),
        )


def _stamps(seconds: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[str]:
    """Return event times in ISO 8601 without the zone, cut to microseconds so that their order is kept."""
    microseconds = (seconds * 1e6).astype("timedelta64[us]")
    stamps: list[str] = np.datetime_as_string(np.datetime64(EPOCH, "us") + microseconds, unit="us").tolist()
    return stamps
