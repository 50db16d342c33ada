"""Counts of keys that the lookup's cache answers and leaves to read: with and without punctuations, and with
and without reads of entries before they are too old.

All keys are asked for alike. Counts begin when the cache has filled up.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from endmark.operators.lookup import cache
from endmark.operators.lookup.cache import CacheSpec, FrontCache
from endmark.state.keys import KeySpec
from endmark_benchmarks.harness.origin import origin

RESULTS = Path(__file__).parents[2] / "results" / "lookup_cache.json"
KEY = KeySpec.of(["id"], [pa.int64()])
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
BATCH_ROWS = 20_000
FOR_EVER = 10**9  # the clock goes by batches
LIVE_KEYS, CLOSED_KEYS, CAPACITIES = 20_000, 1_000, (1_000_000, 4_000_000, 64_000_000)
KEYS, LIFETIME, CAPACITY = 5_000, 60, 64_000_000
Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


def column(keys: Ints) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(keys)})


def ask(asked: FrontCache, keys: Ints, now: int) -> tuple[int, int]:
    """Look up a batch in the cache and read the rest; return the rows answered by the cache, and the keys
    read.

    Args:
        asked: the cache.
        keys: the keys of the batch.
        now: microseconds since 1970.
    """
    at_hand = asked.lookup(KEY.keys(column(keys)), now).rows
    read = np.unique(np.delete(keys, at_hand))
    if len(read):
        rows = column(read).append_column("name", pa.array(["x" * 100] * len(read)))
        asked.admit([(column(read), rows)], now)
    return len(at_hand), len(read)


def closing(capacity: int, *, told: bool) -> dict[str, Any]:
    """Each batch closes some keys, of which the cache is told or not, and others take their places."""
    random = np.random.default_rng(1)
    asked = FrontCache(CacheSpec(capacity, FOR_EVER, FOR_EVER), KEY, SCHEMA)
    live, born = random.permutation(LIVE_KEYS), LIVE_KEYS
    at_hand, sizes = [], []
    for batch in range(120):
        at_hand.append(ask(asked, random.choice(live, BATCH_ROWS), batch)[0])
        over = random.choice(LIVE_KEYS, CLOSED_KEYS, replace=False)
        closed = column(live[over])
        live[over], born = np.arange(born, born + CLOSED_KEYS), born + CLOSED_KEYS
        if told:
            asked.evict(closed)
        sizes.append(asked.size)
    hits = sum(at_hand[60:]) / (60 * BATCH_ROWS)
    return {"capacity": capacity, "told": told, "hits": round(hits, 3), "bytes": round(np.mean(sizes[60:]))}


def ageing(*, again: bool) -> dict[str, Any]:
    """The same keys for ever; answers are too old after some batches."""
    random = np.random.default_rng(1)
    asked = FrontCache(CacheSpec(CAPACITY, LIFETIME, LIFETIME), KEY, SCHEMA)
    often = cache.OFTEN if again else FOR_EVER
    with patch.object(cache, "OFTEN", often):
        read = [ask(asked, random.integers(KEYS, size=BATCH_ROWS), batch)[1] for batch in range(400)]
    counted = read[150:]
    return {"again": again, "most_keys": max(counted), "mean_keys": round(np.mean(counted), 1)}


def main() -> None:
    """Count, and keep the figures."""
    found = {
        "closing": [closing(capacity, told=told) for capacity, told in product(CAPACITIES, (False, True))],
        "ageing": [ageing(again=again) for again in (False, True)],
    }
    print(json.dumps(found, indent=1))
    RESULTS.write_text(json.dumps({**origin(), **found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
