"""The changes of a database's table: Debezium's envelopes, and a pipeline with a table of the newest rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from endmark.pipeline import Pipeline
from endmark.types import ColumnType
from support.avro_registry import MARK, NOWHERE, change_from_json, from_json
from support.formats import SOURCE
from support.verify_histories import stamp
from support.verify_world import Record, instant

TOPIC = "shop.customers"
PARTITIONS = 2
KEYS = 5
COLUMNS: dict[tuple[str, ...], ColumnType] = {
    ("customer_id",): ColumnType.LONG,
    ("seller_id",): ColumnType.LONG,
    ("name",): ColumnType.parse("string?"),
    ("at",): ColumnType.TIMESTAMP,
}
LATEST = "latest:changes"


def replica(
    *,
    lateness: int = 3600,
    looked_up: bool = False,
    derived: bool = False,
    closing: bool = False,
    avro: bool = False,
    **table: Any,
) -> dict[str, Any]:
    """A pipeline file with a table of the newest row of each customer.

    Args:
        lateness: the seconds by which a row may be older than an earlier one.
        looked_up: whether the customers' sellers are looked up, one page in a batch.
        derived: whether a column is derived and another one lost.
        closing: whether a deletion closes its key, so that the customer never comes again.
        avro: whether changes are in Avro, by schemas of `NOWHERE`.
        table: further fields of the table.
    """
    steps: dict[str, Any] = {}
    source = "changes"
    if derived:
        steps["spelled"] = {"from": source, "derive": {"loud": "upper(name)"}, "drop": ["name"]}
        source = "spelled"
    if looked_up:
        lookup = {"relation": "sellers", "key": "seller_id", "miss": "nulls", "time_per_batch": "0ms"}
        steps["known"] = {"from": source, "lookup": lookup}
        source = "known"
    sellers = {"seller_id": "long", "name": "string", "rating": "double"}
    relation = {"url": "sqlite://", "table": "sellers", "key": "seller_id", "columns": sellers}
    return {
        "name": "replica",
        **({"registry": {"url": NOWHERE}} if avro else {}),
        "streams": {
            "changes": {
                "topic": TOPIC,
                "format": "debezium_avro" if avro else "debezium",
                "updates": "rows",
                "columns": {
                    "customer_id": "long",
                    "seller_id": "long",
                    "name": "string?",
                    "at": "timestamp",
                },
                "event_time": {"column": "at", "lateness": f"{lateness}s"},
                "punctuated_on": ["customer_id"] if closing else [],
            }
        },
        "relations": {"sellers": relation} if looked_up else {},
        "steps": steps,
        "tables": {"now": {"from": source, "mode": "upsert", "key": "customer_id", **table}},
    }


def replica_pipeline(**fields: Any) -> Pipeline:
    return Pipeline.model_validate(replica(**fields))


def envelope(op: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> bytes:
    """An envelope as Debezium writes it."""
    return json.dumps(
        {"before": before, "after": after, "source": SOURCE, "op": op, "ts_ms": 1767225600000}
    ).encode()


def customer(key: int, seconds: float, seller: int = 1, name: str | None = "Ann") -> dict[str, Any]:
    return {"customer_id": key, "seller_id": seller, "name": name, "at": instant(seconds)}


def change(op: str, key: int, seconds: float, seller: int = 1, name: str | None = "Ann") -> Record:
    """A change of one customer, whose changes are all in one partition."""
    row = customer(key, seconds, seller, name)
    value = envelope("d", row, None) if op == "d" else envelope(op, row if op == "u" else None, row)
    return Record(TOPIC, key % PARTITIONS, value, stamp(seconds))


def in_avro(record: Record) -> Record:
    """Return a change, or a punctuation of JSON, in Avro. A record that is neither stays as it is."""
    try:
        document = json.loads(record.value or b"")
    except ValueError:
        return record
    if MARK in document:
        return replace(record, value=from_json(document, COLUMNS))
    images = document["before"], document["after"]
    return replace(record, value=change_from_json(document["op"], *images, COLUMNS))


@st.composite
def promises(draw: st.DrawFn) -> Record:
    """A punctuation of a customer. It deletes no row, and closes a key only if deletions do."""
    key, pattern = draw(st.integers(0, KEYS - 1)), draw(st.sampled_from(["equals", "one_of"]))
    value = {MARK: {"customer_id": {pattern: key if pattern == "equals" else [key]}}}
    return Record(TOPIC, key % PARTITIONS, json.dumps(value).encode(), stamp(0))


@st.composite
def changes(draw: st.DrawFn) -> list[Record]:
    """Changes of a few customers, some of whom are deleted and come again; and some bad records."""
    found = []
    for place in range(draw(st.integers(0, 40))):
        key = draw(st.integers(0, KEYS - 1))
        op = draw(st.sampled_from(["c", "u", "u", "u", "r", "d", "tombstone", "bad"]))
        if op in ("tombstone", "bad"):
            value = None if op == "tombstone" else b"{"
            found.append(Record(TOPIC, key % PARTITIONS, value, stamp(place)))
            continue
        seconds = place + draw(st.integers(-2, 2))
        name = draw(st.sampled_from(["Ann", "", None, f"at {place}", "__debezium_unavailable_value"]))
        found.append(change(op, key, seconds, draw(st.integers(1, 4)), name))
    return found
