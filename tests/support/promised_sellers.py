"""Histories of auctions whose sellers are promised: no more items, or bids, of a seller will come."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from support.verify_keys import LONG
from support.verify_world import Record, bid, close, item, promise


@st.composite
def promised_sellers(draw: st.DrawFn, partitions: Mapping[str, int]) -> list[Record]:
    """Auctions of three sellers, who are promised in all partitions, mostly while some of theirs are open."""
    records: list[Record] = []
    for second in range(draw(st.integers(5, 30))):
        key, seller = draw(st.integers(0, 5)), draw(st.integers(1, 3))
        match draw(st.sampled_from(["item", "item", "bid", "bid", "bid", "over", "promise", "end"])):
            case "item":
                home = LONG.home(key, partitions["all.items"])
                records.append(item(key, second, seller, home))
            case "bid":
                home = LONG.home(key, partitions["all.bids"])
                records.append(bid(key, second, draw(st.sampled_from([1, 2, 9])), partition=home))
            case "over":
                records.append(close("bids", key, LONG.home(key, partitions["all.bids"])))
            case kind:
                anything = kind == "end" and draw(st.integers(0, 3)) == 0
                pattern = {"anything": True} if anything else {"equals": seller}
                stream = draw(st.sampled_from(["items", "items", "bids"]))
                records += [
                    promise(stream, {"seller_id": pattern}, home)
                    for home in range(partitions[f"all.{stream}"])
                ]
    return records
