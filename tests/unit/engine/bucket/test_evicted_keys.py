"""What punctuations say of the cache: keys that are over are forgotten, no others."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from endmark.engine.bucket.evicted_keys import EvictedKeys
from endmark.engine.streams import stream_plans
from endmark.metrics import sample
from endmark.operators.stream_batch import StreamBatch
from endmark.pipeline import Pipeline
from endmark.punctuation.pattern import Equals
from endmark.punctuation.punctuation import Origin, Punctuation
from support.bucket_tasks import BucketTasks
from support.shops import DOCUMENT, changed
from support.verify_recompute import sellers_of
from support.verify_world import PARTITIONS, Record, bid, close, locate, make_pipeline, promise

CACHED = sample("lookup_cached_rows_total", relation="sellers")


@pytest.mark.parametrize(
    ("key", "said", "forgotten"),
    [
        ("seller_id", promise("bids", {"seller_id": {"equals": 1}}, 0), True),
        ("seller_id", promise("bids", {"seller_id": {"one_of": [2, 1]}}, 0), True),
        ("seller_id", promise("bids", {"seller_id": {"equals": 2}}, 0), False),
        ("seller_id", promise("bids", {"seller_id": {"equals": 1}, "item_id": {"equals": 1}}, 0), False),
        ("seller_id", promise("bids", {"seller_id": {"between": {"to": 1}}}, 0), False),
        ("seller_id", promise("items", {"seller_id": {"equals": 1}}, 0), False),
        ("seller_id", close("bids", 1, partition=0), False),
        ("item_id", close("bids", 1, partition=0), True),
        ("item_id", close("bids", 3, partition=0), False),
    ],
)
def test_a_key_that_is_named_is_read_again(tmp_path: Path, key: str, said: Record, forgotten: bool) -> None:
    """Rows of it come from a partition that the punctuation does not speak for."""
    looking = {"key": key, "cache": {"lifetime": "1h"}}
    pipeline = make_pipeline(windows=(None, None), looking=looking, wider=("seller_id",))
    tasks = BucketTasks(pipeline, sellers_of(pipeline), PARTITIONS, tmp_path)

    def cached(*records: Record) -> int:
        tasks.batch(locate(records))
        return sum(report["samples"].get(CACHED, 0) for report in tasks.reports)

    assert cached(bid(1, 0)) == 0
    assert cached(bid(1, 1)) == 1
    cached(said)
    assert cached(bid(1, 2)) == (0 if forgotten else 1)


def _sales(key: list[str], punctuated_on: list[str]) -> EvictedKeys | None:
    shops: dict[str, Any] = {"key": ["day", "shop"], "columns": {"day": "date", "shop": "string"}}
    cards = DOCUMENT["relations"]["cards"] | shops
    sales = DOCUMENT["streams"]["sales"] | {"punctuated_on": punctuated_on}
    document = changed(known={"key": key}, matched={"where": None})
    streams = DOCUMENT["streams"] | {"sales": sales}
    pipeline = Pipeline.model_validate(document | {"relations": {"cards": cards}, "streams": streams})
    return EvictedKeys.of(
        stream_plans(pipeline, {"offers": 1, "sales": 1})["sales"], [f"sales_{name}" for name in key]
    )


def test_columns_are_in_the_order_of_the_lookup() -> None:
    """Whatever the order of the join's key."""
    over = _sales(["day", "shop"], ["day", "shop"])
    assert over is not None
    named = pa.record_batch({"key_0": ["s"], "key_1": pa.array([date(2026, 1, 2)])})
    patterns = {"sales_shop": Equals("t"), "sales_day": Equals(date(2026, 1, 3))}
    promise = Punctuation.of("sales", patterns, Origin(0, 0))
    found = over.closed_keys(StreamBatch(closed_keys=named, promises=[promise]))
    assert found is not None
    assert found.to_pylist() == [
        {"sales_day": date(2026, 1, 2), "sales_shop": "s"},
        {"sales_day": date(2026, 1, 3), "sales_shop": "t"},
    ]


def test_punctuations_on_other_columns_say_nothing() -> None:
    """A stream that is not punctuated on all that is looked up never names a key."""
    over = _sales(["day", "shop"], ["day", "shop"])
    assert over is not None
    assert over.closed_keys(StreamBatch()) is None
    pipeline = make_pipeline(punctuated=(True, True))
    bids = stream_plans(pipeline, {"all.items": 1, "all.bids": 1})["bids"]
    assert EvictedKeys.of(bids, ["bids_seller_id"]) is None
