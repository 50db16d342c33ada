"""Columns that may be null, rows that lack them, and rows with members that nobody declared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from endmark.pipeline import Stream
from support.verify_world import Record

_OWN = {"items": ["seller_id"], "bids": ["seller_id", "price", "urgent", "note", "due", "tip"]}
# Names and values that could be taken for declared ones.
EXTRA: list[tuple[str, Any]] = [
    ("extra", 1),
    ("extra", None),
    ("Price", "dear"),
    ("item", "{"),
    ("item_id_", {"item_id": [7, {"price": None}], "seller_id": "}"}),
    ("seller", [[], [1, "]"], {"seller_id": 3}]),
]


@st.composite
def nullable(
    draw: st.DrawFn, stream: str, keys: Sequence[str], declared: Mapping[str, Any], promised: Sequence[str]
) -> frozenset[str]:
    """Some of the columns that may be null: those on which the stream promises nothing."""
    rule = declared.get("closes", {"on": []})
    taken = {*promised, *rule["on"]}
    taken |= {name for field in ("ordered", "unique", "clustered") for name in declared.get(field, ())}
    free = [name for name in (*keys, *_OWN[stream]) if name not in taken]
    return draw(st.frozensets(st.sampled_from(free))) if free else frozenset()


@st.composite
def with_gaps(draw: st.DrawFn, record: Record, stream: Stream | None, keys: Sequence[str]) -> Record:
    """A row as its stream lets it be: with nulls, without members, or with others, which a stream that does
    not ignore them rarely gets. A row of a stream that allows neither stays as it is."""
    if stream is None:
        return record
    missing = [name for name, kind in stream.columns.items() if kind.nullable]
    if not missing and stream.extra != "ignore":
        return record
    row = json.loads(record.value or b"")
    for name in missing:
        there = ["there"] * (8 if name in keys else 2)
        match draw(st.sampled_from([*there, "null", "missing"])):
            case "null":
                row[name] = None
            case "missing":
                del row[name]
    often = [0, 1, 2] if stream.extra == "ignore" else [0] * 15 + [1]
    for name, value in draw(st.permutations(EXTRA))[: draw(st.sampled_from(often))]:
        row = {name: value} | row if draw(st.booleans()) else row | {name: value}
    return replace(record, value=json.dumps(row).encode())
