"""A claim that needs every partition of a topic is complete with the last of them, and not before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from endmark.types import JoinType
from support.bucket_tasks import BucketTasks, Tables, total
from support.verify_recompute import recomputed, require_within, sellers_of
from support.verify_world import Record, bid, close, heartbeat, item, locate, make_pipeline, promise

BELOW = {"item_id": {"between": {"to": 9}}}
OF_NOBODY = {"seller_id": {"equals": 4}}


@dataclass(frozen=True)
class Claim:
    """What is to be complete.

    Args:
        opening: records that come first, given how many partitions the bids have.
        said: what each of these partitions says then.
        table: it gets its first rows with the last of them.
        pipeline: fields of `make_pipeline`.
    """

    opening: Callable[[int], list[Record]]
    said: Callable[[int], Record]
    table: str
    pipeline: dict[str, Any]


def closing(_: int) -> list[Record]:
    """A group that waits for the bids."""
    return [item(0, 1), bid(0, 1, partition=0), close("items", 0)]


def others(count: int) -> list[Record]:
    """Each partition promises something, but no two the same."""
    return [promise("bids", {"seller_id": {"equals": 10 + at}}, at) for at in range(count)]


FOR_EVER: dict[str, Any] = {"windows": (None, None)}
SCATTERED = {**FOR_EVER, "declared": ({}, {"punctuation_scope": "topic"})}
WIDER = {**FOR_EVER, "wider": ("seller_id",)}
PASSING = {"windows": (2, 2), "kind": JoinType.LEFT}
CLAIMS = {
    "a key by its name": Claim(closing, lambda at: close("bids", 0, at), "groups", SCATTERED),
    "a key by a pattern": Claim(closing, lambda at: promise("bids", BELOW, at), "groups", FOR_EVER),
    "a key by its name or a pattern": Claim(
        closing,
        lambda at: close("bids", 0, at) if at % 2 else promise("bids", BELOW, at),
        "groups",
        SCATTERED,
    ),
    "a pattern": Claim(lambda _: [], lambda at: promise("bids", OF_NOBODY, at), "announced", WIDER),
    "a pattern among others": Claim(others, lambda at: promise("bids", OF_NOBODY, at), "announced", WIDER),
    "progress where some were silent": Claim(
        lambda _: [item(0, 1)], lambda at: bid(1 + at, 9, partition=at), "results", PASSING
    ),
    "progress where some are slow": Claim(
        lambda count: [item(0, 1), *(bid(8, 1, partition=at) for at in range(count))],
        lambda at: bid(1 + at, 9, partition=at),
        "results",
        PASSING,
    ),
    "progress where some only send heartbeats": Claim(
        lambda _: [item(0, 1)], lambda at: heartbeat("bids", 9, at), "results", PASSING
    ),
}


@pytest.mark.parametrize("missing", ["first", "last"])
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", CLAIMS)
def test_the_last_partition_completes_a_claim(tmp_path: Path, name: str, count: int, missing: str) -> None:
    """Whichever partition is the last of however many."""
    claim = CLAIMS[name]
    pipeline = make_pipeline(lookup="items", looking={"miss": "nulls"}, **claim.pipeline)
    partitions = {"all.items": 1, "all.bids": count}
    order = list(range(count)) if missing == "last" else list(range(count))[::-1]
    came = claim.opening(count)
    tasks = BucketTasks(pipeline, sellers_of(pipeline), partitions, tmp_path)
    batches: list[Tables] = [tasks.batch(locate(came))]
    for partition in order:
        came.append(claim.said(partition))
        batches.append(tasks.batch(locate(came)[-1:]))
        found = total(batches)
        assert bool(found[claim.table]) == (partition == order[-1])
        if partition in order[-2:]:
            with recomputed(pipeline, came, found, partitions) as session:
                require_within(session, pipeline)
