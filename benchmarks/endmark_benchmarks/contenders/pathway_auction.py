"""The auction pipeline in Pathway, in a process of the Python that has it.

Without a licence key Pathway neither reads MariaDB nor writes Delta tables, so R comes from a file, and the
results are only counted and summed up. The module reads a task as JSON from standard input, and prints the
digest and the seconds from the start of the engine to the last result as a line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import datetime, timedelta
from typing import Any

from endmark_benchmarks.harness.digest import CODES, DIVISORS, WEIGHTS

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


def figures(pw: Any, results: Any) -> Any:
    """Return a table of one row with the digest of the results, as `figures_of` of the auction has it."""
    row = pw.this
    bid = _code(row.bids_bid_id, _micros(row.bids_bid_at), row.bids_item_id, _cents(pw, row.bids_price))
    item = _code(row.items_seller_id, _micros(row.items_listed_at), _cents(pw, row.items_start_price))
    seller = _code(row.bids_name.str.len(), row.bids_country.str.len(), _cents(pw, row.bids_rating))
    left = _code(bid, row.bids_seller_id, row.bids_bidder_id)
    right = _code(item, row.items_item_id, row.items_category.str.len(), seller)
    high, low = (pw.reducers.sum(row.product % divisor) for divisor in DIVISORS)
    return results.select(product=left * right).reduce(rows=pw.reducers.count(), high=high, low=low)


def _code(*numbers: Any) -> Any:
    weighted = [weight * number for weight, number in zip(WEIGHTS, numbers, strict=False)]
    return sum(weighted[1:], weighted[0]) % CODES


def _micros(time: Any) -> Any:
    return (time - datetime(1970, 1, 1)).dt.microseconds()  # noqa: DTZ001  # as Pathway has it without a zone


def _cents(pw: Any, number: Any) -> Any:
    return pw.cast(int, (number * 100).num.round())


def main() -> None:
    import pathway as pw  # endmark's own environment does not have it

    task: dict[str, Any] = json.load(sys.stdin)
    last: dict[str, Any] = {}

    def heard(row: dict[str, Any], is_addition: bool, **_: Any) -> None:
        if is_addition:
            last.update(row, at=time.monotonic())

    pw.io.subscribe(figures(pw, matched(pw, task)), heard)
    began = time.monotonic()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    given = [last["rows"], last["high"], last["low"]]
    print(json.dumps({"given": given, "seconds": last["at"] - began}))


if __name__ == "__main__":
    main()
