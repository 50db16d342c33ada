"""Relations beside the sellers: one lacks other keys than they do, the other has some keys twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from hypothesis import strategies as st

RANK = {"seller_id": "long", "rank": "string"}
OTHERS: dict[str, list[tuple[Any, ...]]] = {
    "ranks": [(1, "first"), (3, None), (4, "last")],
    "badges": [(1, "new"), (1, "odd"), (1, "old"), (2, "new"), (4, "old"), (4, "old")],
}
_ALIKE = {"ranks": "many_to_one", "badges": "many_to_many"}


def lookup_steps(
    sellers: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the lookup steps of a pipeline file, and the last step of each stream.

    The step `known` asks the sellers. `others` are further lookups, by the names of their relations. Each
    lookup has its `stream` beside its fields.
    """
    ends = {"items": "items", "bids": "bids"}
    steps: dict[str, Any] = {}
    asking = {"known": {"relation": "sellers", **sellers}}
    asking |= {f"of_{name}": {"relation": name, **fields} for name, fields in others.items()}
    for step, fields in asking.items():
        lookup = {"key": "seller_id", **fields}
        stream = lookup.pop("stream")
        steps[step] = {"from": ends[stream], "lookup": lookup}
        ends[stream] = step
    return steps, ends


def seed_others(url: str) -> None:
    """Make their tables."""
    meta, engine = sa.MetaData(), sa.create_engine(url)
    for name, rows in OTHERS.items():
        key = sa.Column("seller_id", sa.BigInteger, index=True)
        table = sa.Table(name, meta, key, sa.Column("rank", sa.String(40)))
        meta.create_all(engine)
        with engine.begin() as connection:
            connection.execute(table.insert(), [{"seller_id": seller, "rank": rank} for seller, rank in rows])
    engine.dispose()


@st.composite
def other_lookups(draw: st.DrawFn, misses: st.SearchStrategy[Any]) -> dict[str, dict[str, Any]]:
    """None, one or both of them, on either stream."""
    return {
        name: {
            "stream": draw(st.sampled_from(["items", "bids"])),
            "cardinality": _ALIKE[name],
            "miss": draw(misses),
            "strategy": draw(st.sampled_from(["hybrid", "batched"])),
            "time_per_batch": draw(st.sampled_from([None, "0ms"])),
            "memory": draw(st.sampled_from([1, 64_000_000])),
            "cache": draw(st.sampled_from([None, {"memory": 300}])),
        }
        for name in draw(st.lists(st.sampled_from(list(OTHERS)), unique=True))
    }
