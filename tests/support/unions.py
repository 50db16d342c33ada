"""Orders of a web shop and of stores, which a pipeline makes one stream."""

from __future__ import annotations

import json
from typing import Any

from endmark.pipeline import Pipeline
from support.verify_world import Record, instant

COLUMNS = {"order_id": "long", "total": "long", "moment": "timestamp"}
TOPICS = {"of.web": 2, "of.stores": 1, "of.payments": 1}


def document(**changes: Any) -> dict[str, Any]:
    """The pipeline file: the union, joined with payments and grouped. `changes` are fields of streams."""
    streams: dict[str, Any] = {
        name: {
            "topic": f"of.{name}",
            "columns": dict(COLUMNS),
            "event_time": {"column": "moment", "ahead": None},
            "punctuated_on": "order_id",
        }
        for name in ("web", "stores", "payments")
    }
    for name, fields in changes.items():
        streams[name] |= fields
    return {
        "name": "shop",
        "streams": streams,
        "steps": {
            "orders": {"union": ["web", "stores"]},
            "paid": {"join": ["orders", "payments"], "on": "order_id"},
            "by_order": {
                "from": "paid",
                "aggregate": {
                    "by": "order_id",
                    "measures": {"rows": "count", "total": {"sum": "orders.total"}},
                },
            },
        },
        "tables": {"paid": {}, "by_order": {}},
    }


def pipeline(**changes: Any) -> Pipeline:
    return Pipeline.model_validate(document(**changes))


def order(stream: str, key: int, seconds: float = 0, total: int = 1, partition: int = 0) -> Record:
    row = {"order_id": key, "total": total, "moment": instant(seconds)}
    return Record(f"of.{stream}", partition, json.dumps(row).encode())


def closes(stream: str, patterns: Any, partition: int = 0) -> Record:
    """A punctuation of one partition, on a key if `patterns` is a number."""
    patterns = patterns if isinstance(patterns, dict) else {"order_id": {"equals": patterns}}
    return Record(f"of.{stream}", partition, json.dumps({"$punctuation": patterns}).encode())
