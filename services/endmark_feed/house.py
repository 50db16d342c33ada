"""The auction house: decides tick by tick whether an item is listed, a bid placed or an auction closed."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from endmark.client import key_hash
from endmark_feed.lots import Auction, auctions
from endmark_feed.message import BIDS, ITEMS, Kind, Message, punctuation
from endmark_feed.options import FeedOptions


class Tick(NamedTuple):
    """One free place in the stream: when it is due (seconds), that as event time, and what chance brings."""

    due: float
    stamp: str
    slot: int
    bidder_id: int
    raise_by: int


class AuctionHouse:
    """A fixed number of slots with at most one auction each.

    A bid goes to the auction in a random slot. When that auction has had all its bids it closes instead, and
    when the slot is free a new one opens, so nearly all slots are taken and openings are as steady as bids.
    """

    def __init__(self, options: FeedOptions) -> None:
        self._partitions = options.partitions
        self._auctions = auctions(options)
        self._slots: list[Auction | None] = [None] * options.open_items
        self._to_promise: Auction | None = None
        self._listings: list[tuple[float, int, Auction]] = []  # heap by due time
        self._serial = count()  # equal due times must not make the heap compare auctions
        self._unpromised = array("q")
        self._bids = 0

    def message(self, tick: Tick) -> Message:
        """The record for this place in the stream."""
        if self._to_promise is not None:
            return self._promise(self._to_promise, tick)
        if self._listings and self._listings[0][0] <= tick.due:
            return self._list(heappop(self._listings)[2], tick)
        auction = self._slots[tick.slot]
        if auction is None:
            auction = self._slots[tick.slot] = self._open()
            if not auction.listing_delay:
                return self._list(auction, tick)
            self._list_later(auction, tick.due + auction.listing_delay)
        if auction.bids_left:
            return self._bid(auction, tick)
        self._slots[tick.slot] = None
        return self._close(auction, tick)

    def closing_sale(self, tick: Tick) -> Iterator[Message]:
        """End the run at one instant: list what is still to come, close what is open, and promise that
        nothing is ever listed again, so that every group is final."""
        while self._to_promise is not None or self._listings:
            if self._to_promise is not None:
                yield self._promise(self._to_promise, tick)
            else:
                yield self._list(heappop(self._listings)[2], tick)
        for auction in self._slots:
            if auction is not None:
                yield _punctuate(BIDS, auction.bids_partition, auction.item_id, tick)
        for item_id in self._unpromised:
            partition = key_hash(b"%d" % item_id) % self._partitions.items
            yield _punctuate(ITEMS, partition, item_id, tick)

    def _open(self) -> Auction:
        auction = next(self._auctions)
        if auction.relistable:
            self._unpromised.append(auction.item_id)
        return auction

    def _list_later(self, auction: Auction, due: float) -> None:
        heappush(self._listings, (due, next(self._serial), auction))

    def _list(self, auction: Auction, tick: Tick) -> Message:
        if not auction.relistable:
            self._to_promise = auction
        value = (
            f'{{"item_id": {auction.item_id}, "seller_id": {auction.seller_id}, '
            f'"category": "{auction.category}", "start_price": {auction.start_price / 100}, '
            f'"listed_at": "{tick.stamp}Z"}}'
        ).encode()
        return Message(ITEMS, auction.items_partition, auction.key, value, tick.due, Kind.ITEM)

    def _promise(self, auction: Auction, tick: Tick) -> Message:
        self._to_promise = None
        return _punctuate(ITEMS, auction.items_partition, auction.item_id, tick)

    def _bid(self, auction: Auction, tick: Tick) -> Message:
        auction.bids_left -= 1
        auction.highest += tick.raise_by
        self._bids += 1
        value = (
            f'{{"bid_id": {self._bids}, "item_id": {auction.item_id}, "seller_id": {auction.seller_id}, '
            f'"bidder_id": {tick.bidder_id}, "price": {auction.highest / 100}, "bid_at": "{tick.stamp}Z"}}'
        ).encode()
        return Message(BIDS, auction.bids_partition, auction.key, value, tick.due, Kind.BID)

    def _close(self, auction: Auction, tick: Tick) -> Message:
        if auction.relist_after is not None:
            self._list_later(auction, tick.due + auction.relist_after)
        return _punctuate(BIDS, auction.bids_partition, auction.item_id, tick)


def _punctuate(topic: str, partition: int, item_id: int, tick: Tick) -> Message:
    return Message(topic, partition, b"%d" % item_id, punctuation(item_id), tick.due, Kind.PUNCTUATION)
