"""The auction as the input of whole jobs, and the settings that its pipeline is measured with."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from endmark.pipelines import AUCTION
from endmark_benchmarks.harness.digest import code, figures
from endmark_benchmarks.workloads.measured import Measured
from endmark_benchmarks.workloads.recorded import Recorded
from endmark_feed.message import BIDS, ITEMS
from endmark_feed.options import FeedOptions, Partitions
from endmark_feed.relation import seed_relation, sellers_table
from endmark_feed.workload import messages

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PARTITIONS = Partitions(items=4, bids=4)
# What the job is compared with answers each batch at once, and so does the job, by the cheapest reads; its
# batches are as large as the measurement says.
SETTINGS = (
    "steps.known.lookup.strategy=auto",
    "steps.known.lookup.time_per_batch=null",
    "batch.pause_below=null",
    "batch.records=500000",
)
MEASURED = Measured(AUCTION, SETTINGS)
_OPEN_SECONDS = 1.0  # open auctions for each record a second: an auction lasts some 20 s


def workload(seconds: float, rate: float, sellers: int) -> FeedOptions:
    """Return the auction without bad records, which Spark's own operators could not tell from good ones.

    Args:
        seconds: the length in event time.
        rate: records a second of event time.
        sellers: rows of R.
    """
    return FeedOptions(
        minutes=seconds / 60,
        rate=rate,
        sellers=sellers,
        open_items=max(1, round(rate * _OPEN_SECONDS)),
        bad_rate=0.0,
        bursts=False,
        partitions=PARTITIONS,
    )


def recorded(directory: Path, feed: FeedOptions) -> Recorded:
    """Return the recording of an auction below the directory of all recordings."""
    return Recorded(
        directory / f"auction-{feed.ticks}-{feed.rate:g}-{feed.sellers}-{feed.partitions.bids}",
        {ITEMS: feed.partitions.items, BIDS: feed.partitions.bids},
        partial(messages, feed),
        partial(seed_relation, sellers=feed.sellers, seed=feed.seed),
    )


def sellers(url: str) -> list[dict[str, Any]]:
    """Return all rows of R.

    Args:
        url: the SQLAlchemy URL of the database.
    """
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        found = connection.execute(sa.select(sellers_table)).mappings().all()
    engine.dispose()
    return [dict(row) for row in found]


def figures_of(micros: Callable[[str], str]) -> list[str]:
    """Return SQL of the digest of results, from all of their columns but those that tell a row's place in
    Kafka.

    Args:
        micros: returns SQL of a time in microseconds since 1970, from the name of its column.
    """
    bid = code("bids_bid_id", micros("bids_bid_at"), "bids_item_id", _cents("bids_price"))
    item = code("items_seller_id", micros("items_listed_at"), _cents("items_start_price"))
    seller = code("CHAR_LENGTH(sellers_name)", "CHAR_LENGTH(sellers_country)", _cents("sellers_rating"))
    return figures(
        code(bid, "bids_seller_id", "bids_bidder_id"),
        code(item, "items_item_id", "CHAR_LENGTH(items_category)", seller),
    )


def _cents(number: str) -> str:
    return f"CAST(ROUND(100 * {number}) AS BIGINT)"
