"""The auction pipeline in Pathway, in a process of the Python that has it.

Without a licence key Pathway neither reads MariaDB nor writes Delta tables, so R comes from a file, and the
results are only counted and summed up. The module reads a task as JSON from standard input.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime, timedelta
from typing import Any

from endmark_benchmarks.contenders.pathway_answers import answer, code

_STAMP = "%Y-%m-%dT%H:%M:%S.%fZ"
_TYPES = {"long": int, "double": float, "string": str, "timestamp": str}


def matched(pw: Any, task: dict[str, Any]) -> Any:
    """Return the table of the results.

    Args:
        pw: the module of Pathway.
        task: `bootstrap` of the broker, `sellers` as a file of JSON, and of each stream its topic, the types
            of its columns, and the column of its event time.
    """
    items, bids = (_stream(pw, task["bootstrap"], task["streams"][name]) for name in ("items", "bids"))
    kinds = {"seller_id": int, "name": str, "country": str, "rating": float}
    sellers = pw.io.jsonlines.read(task["sellers"], schema=pw.schema_from_types(**kinds), mode="static")
    known = bids.join(sellers, bids.seller_id == sellers.seller_id).select(
        *bids, sellers.name, sellers.country, sellers.rating
    )
    window = pw.temporal.interval(-timedelta(seconds=10), timedelta(seconds=60))
    # Everything is kept: a cutoff of state would drop rows, since the topics are not read in step.
    joined = items.interval_join(known, items.listed_at, known.bid_at, window, items.item_id == known.item_id)
    columns = {f"items_{name}": items[name] for name in items.column_names()}
    return joined.select(**columns, **{f"bids_{name}": known[name] for name in known.column_names()})


def _stream(pw: Any, bootstrap: str, stream: dict[str, Any]) -> Any:
    """Return the rows of a stream without its punctuations, which have no columns."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"pathway-{os.getpid()}",
        "auto.offset.reset": "earliest",
    }
    columns = {
        name: pw.column_definition(dtype=_TYPES[kind] | None, default_value=None)
        for name, kind in stream["columns"].items()
    }
    schema = pw.schema_builder(columns)
    topic = pw.io.kafka.read(settings, topic=stream["topic"], schema=schema, format="json", mode="static")
    rows = topic.filter(pw.this.item_id.is_not_none())
    rows = rows.select(**{name: pw.unwrap(rows[name]) for name in columns})
    stamp = rows[stream["time"]].dt.strptime(_STAMP, contains_timezone=False)
    return rows.with_columns(**{stream["time"]: stamp})


def codes(pw: Any) -> tuple[Any, Any]:
    """Return the codes of both sides of a result, as `figures_of` of the auction has them."""
    row = pw.this
    bid = code(row.bids_bid_id, _micros(row.bids_bid_at), row.bids_item_id, _cents(pw, row.bids_price))
    item = code(row.items_seller_id, _micros(row.items_listed_at), _cents(pw, row.items_start_price))
    seller = code(row.bids_name.str.len(), row.bids_country.str.len(), _cents(pw, row.bids_rating))
    left = code(bid, row.bids_seller_id, row.bids_bidder_id)
    return left, code(item, row.items_item_id, row.items_category.str.len(), seller)


def _micros(time: Any) -> Any:
    return (time - datetime(1970, 1, 1)).dt.microseconds()  # noqa: DTZ001  # as Pathway has it without a zone


def _cents(pw: Any, number: Any) -> Any:
    return pw.cast(int, (number * 100).num.round())


def main() -> None:
    import pathway as pw  # endmark's own environment does not have it

    answer(pw, matched(pw, json.load(sys.stdin)), *codes(pw))


if __name__ == "__main__":
    main()
