"""The queries on frames that carry punctuations: no bound on time, the generator's promises free state."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from endmark.pipeline import Relation
from endmark_benchmarks.workloads.nexmark.events import AUCTIONS, BIDS, PERSONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from endmark.frame import PunctuatedFrame
    from endmark_benchmarks.workloads.nexmark.record import Recording

    Frames = Mapping[str, PunctuatedFrame]

# What a group out of order comes late by is a fraction of that.
LATENESS = timedelta(seconds=1)


def q3(frames: Frames, _: Recording) -> PunctuatedFrame:
    local = (
        frames[PERSONS]
        .where("state in ('OR', 'ID', 'CA')")
        .select("id", "name", "city", "state", "date_time")
    )
    items = frames[AUCTIONS].where("category = 10").select("id", "seller", "date_time")
    found = local.stream_join(
        items,
        on=[("id", "seller")],
        time="date_time",
        window=None,
        lateness=LATENESS,
    )
    return found.select(
        *(F.col(f"left_{name}").alias(name) for name in ("name", "city", "state")),
        F.col("right_id").alias("id"),
    )


def q4(frames: Frames, _: Recording) -> PunctuatedFrame:
    """The winning bid of each auction, once no bid for it can come. The average of a category is a sum over
    these, and never final."""
    auctions = frames[AUCTIONS].select("id", "category", "date_time", "expires")
    bids = auctions.stream_join(
        frames[BIDS].select("auction", "price", "date_time"),
        on=[("id", "auction")],
        where="right_date_time BETWEEN left_date_time AND left_expires",
        time="date_time",
        window=None,
        lateness=LATENESS,
    )
    # The id as bids have it, since it is they who say when an auction is over.
    priced = bids.select(
        F.col("right_auction").alias("id"),
        F.col("left_category").alias("category"),
        F.col("right_price").alias("price"),
    )
    return priced.aggregate(["id", "category"], winning={"max": "price"})


def q8(frames: Frames, _: Recording) -> PunctuatedFrame:
    """Persons who open an auction in the same ten seconds as they come."""
    start = F.expr("unix_micros(date_time) - mod(unix_micros(date_time), 10000000)").alias("period")
    found = (
        frames[PERSONS]
        .select("id", "name", start, "date_time")
        .stream_join(
            frames[AUCTIONS].select("seller", start, "date_time"),
            on=[("id", "seller"), "period"],
            how="semi",
            time="date_time",
            window=timedelta(seconds=10),
            lateness=LATENESS,
        )
    )
    return found.select(*(F.col(f"left_{name}").alias(name) for name in ("id", "name", "period")))


def q13(frames: Frames, recording: Recording) -> PunctuatedFrame:
    """Each bid with its row of a table, by its auction."""
    side = Relation(
        url=recording.side_url, table="side_input", key="key", columns={"key": "long", "value": "string"}
    )
    keyed = F.expr("mod(auction, 10000)").alias("side")
    bids = frames[BIDS].select("auction", "bidder", "price", "date_time", keyed)
    found = bids.lookup_join(side, on="side", prefix="side")
    return found.select("auction", "bidder", "price", "date_time", F.col("side_value").alias("value"))


def q20(frames: Frames, _: Recording) -> PunctuatedFrame:
    found = frames[BIDS].stream_join(
        frames[AUCTIONS].where("category = 10"),
        on=[("auction", "id")],
        time="date_time",
        window=None,
        lateness=LATENESS,
    )
    of_bid, of_auction = ("auction", "bidder", "price", "channel", "url"), ("item_name", "description")
    return found.select(
        *(F.col(f"left_{name}").alias(name) for name in of_bid),
        F.col("left_date_time").alias("bid_time"),
        F.col("left_extra").alias("bid_extra"),
        *(F.col(f"right_{name}").alias(name) for name in (*of_auction, "initial_bid", "reserve")),
        F.col("right_date_time").alias("auction_time"),
        *(F.col(f"right_{name}").alias(name) for name in ("expires", "seller", "category")),
        F.col("right_extra").alias("auction_extra"),
    )


OURS: dict[str, Callable[[Frames, Recording], PunctuatedFrame]] = {
    "q3": q3,
    "q4": q4,
    "q8": q8,
    "q13": q13,
    "q20": q20,
}
