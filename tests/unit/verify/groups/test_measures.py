"""Measures as `verify` recomputes them, where DuckDB's own functions would go another way."""

from __future__ import annotations

from typing import Any

from support.verify_recompute import agreed
from support.verify_world import Record, bid, close, item, make_pipeline


def group(measures: dict[str, Any], *bids: Record) -> list[Any]:
    """The measures of the one group there is."""
    pipeline = make_pipeline(windows=(None, None), lookup="items", measures=measures)
    [row] = agreed(pipeline, [item(1, 0), *bids, close("items", 1), close("bids", 1)], "groups")
    return list(row[1:])


def test_doubles_are_added_exactly() -> None:
    """Whatever their order, and beyond the greatest on the way; an average of them too."""
    measures = {"sum": {"sum": "bids.price"}, "mean": {"avg": "bids.price"}}

    assert group(measures, *(bid(1, at, price=price) for at, price in enumerate((1e17, 0.1, -1e17)))) == [
        0.1,
        0.1 / 3,
    ]
    assert group(measures, *(bid(1, at, price=price) for at, price in enumerate((1e308, 1e308, -1e308)))) == [
        1e308,
        1e308 / 3,
    ]


def test_sums_beyond_their_type_are_null() -> None:
    measures = {
        "pieces": {"sum": "bids.seller_id"},
        "mean": {"avg": "bids.seller_id"},
        "price": {"sum": "bids.price"},
    }

    assert group(measures, *(bid(1, at, seller=2**63 - 1, price=1e308) for at in range(2))) == [
        None,
        2.0**63,
        None,
    ]


def test_the_first_is_by_time_then_place() -> None:
    """And not by the order in which results were made."""
    measures = {"first": {"first": "bids.seller_id"}, "last": {"last": "bids.note"}}
    bids = [bid(1, 5, seller=1), bid(1, 5, seller=2), bid(1, 7, seller=3), bid(1, 7, seller=4, partition=0)]

    assert group(measures, *bids) == [1, "bid \u00fc 7"]
