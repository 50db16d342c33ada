"""The auction house, which decides at each tick whether to list an item, place a bid or close an auction."""

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
    """One place in the stream for a record, with all random numbers that the record may need.

    Args:
        due: seconds since the beginning of the run.
        stamp: `due` as event time, in ISO 8601 in UTC without the zone.
        slot: the slot of the auction house whose auction is next.
        bidder_id: the bidder, if the record is a bid.
        raise_by: cents by which the bid exceeds the bid before.
    """

    due: float
    stamp: str
    slot: int
    bidder_id: int
    raise_by: int


class AuctionHouse:
    """An auction house with a fixed number of slots, each of which has at most one auction.

    Each tick picks a random slot, and usually places a bid in its auction. If that auction has had all its
    bids, it is closed instead. If the slot is free, a new auction opens. So nearly all slots are taken, and
    auctions open as steadily as bids come.
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
        """Return the record for one place in the stream."""
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
        """Yield the records that end the run, all at one time, so that every group becomes final.

        These records list the items that were not listed yet, close the open auctions, and promise that no
        item is listed again.
        """
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
