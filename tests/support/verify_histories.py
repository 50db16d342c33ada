"""Random pipelines and random records for them, which collide: five keys, four sellers, two partitions."""

from __future__ import annotations

from collections.abc import Container

from hypothesis import strategies as st

from endmark.joins.presets import PRESETS, Preset, Propagation
from endmark.pipeline import Pipeline
from endmark.types import JoinType
from support.verify_keys import KeyKind
from support.verify_world import Record, bid, close, item, make_pipeline, promises, raw, wider_promises

CONDITIONS = [
    None,
    "bids_price >= 0.1 AND items_seller_id <> bids_seller_id",
    "SELLERS_rating > 0 OR bids_due = DATE '2026-01-12' -- a comment",
]
STREAM_OF = {"item": "items", "bid": "bids"}
SCOPES = st.sampled_from(["partition", "partition", "topic"])


@st.composite
def pipelines(
    draw: st.DrawFn, kind: JoinType, keys: KeyKind, url: str = "sqlite://", chosen: Preset | None = None
) -> Pipeline:
    """Of the preset that is chosen, or of any."""
    preset = draw(st.sampled_from(Preset)) if chosen is None else chosen
    able = PRESETS[preset]
    bound = st.one_of(st.integers(0, 5), st.none()) if able.window else st.none()
    return make_pipeline(
        url,
        windows=(draw(bound), draw(bound)),
        lateness=(draw(st.integers(0, 3)), draw(st.integers(0, 3))),
        lookup=draw(st.sampled_from(["items", "bids"])),
        punctuated=draw(st.sampled_from([(True, True), (True, False), (False, True)])),
        scopes=draw(st.tuples(SCOPES, SCOPES)),
        keys=keys,
        kind=kind,
        where=draw(st.sampled_from(CONDITIONS)),
        join={
            "preset": preset,
            "purge_every": draw(st.integers(1, 4)) if able.batch else 1,
            "memory": draw(st.sampled_from([None, 1, 2000, 8000])) if able.spill else None,
        },
        aggregated=able.propagate is not Propagation.NEVER,
        wider=draw(st.sampled_from([(), ("seller_id",)])),
    )


@st.composite
def histories(draw: st.DrawFn, keys: KeyKind, scattered: Container[str] = (), least: int = 0) -> list[Record]:
    """Records of five keys, in partitions by key except in `scattered` streams; time moves on, else nearly
    every row would be late."""
    pace = draw(st.sampled_from([0.25, 0.5, 1]))
    records = []
    for place in range(draw(st.integers(least, 40))):
        key, seller = draw(st.integers(0, 4)), draw(st.sampled_from([1, 1, 2, 3, 4]))
        now = place * pace + draw(st.integers(-2, 2))
        kind = draw(
            st.sampled_from(
                ["item"] * 4
                + ["bid"] * 6
                + ["items", "bids"] * 2
                + ["items!", "bids!", "items*", "bids*", "bad"]
            )
        )
        home = draw(st.integers(0, 1)) if STREAM_OF.get(kind, kind) in scattered else None
        if kind == "item":
            records.append(item(key, now, seller, home, keys))
        elif kind == "bid":
            records.append(bid(key, now, seller, [0.1, 2.0, -3.5][seller % 3], home, keys))
        elif kind == "bad":
            records.append(raw("bids", b"{"))
        elif kind.endswith("*"):
            records += draw(wider_promises(kind[:-1], keys))
        elif kind.endswith("!"):
            records += draw(promises(kind[:-1], keys))
        else:
            records.append(close(kind, key, home, keys))
    return records
