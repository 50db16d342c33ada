"""Offers and sales of shops: a pipeline with a composite key, and what its bucket tasks make of records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from endmark.pipeline import Pipeline
from support.bucket_tasks import BucketTasks, Located, Tables
from support.verify_world import STAMPED

SALE = {"day": "date", "shop": "string", "price": "decimal(18,2)", "card": "long", "at": "timestamp"}
OFFER = {"shop": "string", "day": "date", "least": "decimal(18,2)", "at": "timestamp"}
MEASURES = {"rows": "count", "top": {"max": "sales.price"}}
DOCUMENT: dict[str, Any] = {
    "name": "shops",
    "streams": {
        "offers": {
            "topic": "offers",
            "columns": OFFER,
            "event_time": {"column": "at"},
            "punctuated_on": ["day", "shop"],
        },
        "sales": {
            "topic": "sales",
            "columns": SALE,
            "event_time": {"column": "at"},
            "punctuated_on": ["shop", "day"],
        },
    },
    "relations": {
        "cards": {
            "url": "sqlite://",
            "table": "cards",
            "key": "card",
            "columns": {"card": "long", "bank": "string"},
        }
    },
    "steps": {
        "known": {"from": "sales", "lookup": {"relation": "cards", "key": "card"}},
        "matched": {
            "join": ["offers", "known"],
            "on": ["shop", "day"],
            "type": "full",
            "where": "sales_price >= offers_least and cards_bank <> 'none'",
        },
        "by_shop": {"from": "matched", "aggregate": {"by": ["day", "shop"], "measures": MEASURES}},
    },
    "tables": {"results": {"from": "matched"}, "groups": {"from": "by_shop"}},
}
CARDS = [(1, "b1"), (2, "b2")]


def changed(**steps: Mapping[str, Any]) -> dict[str, Any]:
    """The document with other fields of some steps; those of `known` are of its lookup."""
    document = deepcopy(DOCUMENT)
    for name, fields in steps.items():
        step = document["steps"][name]
        step.get("lookup", step).update(fields)
    return document


class Shops:
    """The pipeline with one partition a stream."""

    def __init__(self, directory: Path, measures: dict[str, Any] | None = None, **join: Any) -> None:
        document = changed(matched=join)
        document["steps"]["by_shop"]["aggregate"]["measures"] = measures or MEASURES
        self._tasks = BucketTasks(Pipeline.model_validate(document), CARDS, 1, directory)
        self._ends: Counter[str] = Counter()

    @property
    def reports(self) -> list[dict[str, Any]]:
        return self._tasks.reports

    def batch(self, **records: list[dict[str, Any]]) -> Tables:
        """Rows by channel that come of records by stream."""
        located: list[Located] = []
        for topic, values in records.items():
            for value in values:
                located.append((topic, 0, self._ends[topic], json.dumps(value).encode(), STAMPED))
                self._ends[topic] += 1
        return self._tasks.batch(located)


def offer(shop: str, day: int, least: str) -> dict[str, Any]:
    return {"shop": shop, "day": f"2026-01-{day:02}", "least": least, "at": "2026-01-01T00:00:00Z"}


def seconds(time: int) -> str:
    return f"2026-01-01T00:00:{time:02}Z"


def over(shop: str, day: int) -> dict[str, Any]:
    return {"$punctuation": {"shop": {"equals": shop}, "day": {"equals": f"2026-01-{day:02}"}}}


def sales(*rows: tuple[str, int, str, int]) -> list[dict[str, Any]]:
    return [
        {"day": f"2026-01-{day:02}", "shop": shop, "price": price, "card": card, "at": "2026-01-01T00:00:00Z"}
        for shop, day, price, card in rows
    ]
