"""Groups by another key than the join's, through both stages of a query that is killed and started again."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable

from endmark.client import StreamProducer, one_of
from endmark.embedded.broker import Broker
from endmark.pipeline.text import PipelineText
from endmark.pipelines import AUCTION
from endmark_feed.auction_feed import FeedOptions
from support.warehouse import Warehouse, wait_for

SELLERS = 40
BY_SELLER = {
    "results": {"from": "matched"},
    "by_item": {},
    "open": {"from": "by_item", "mode": "upsert"},
    "again": {},
    "again_so_far": {"from": "again", "mode": "upsert"},
}
AGAIN = {"from": "by_item", "aggregate": {"by": "items_seller_id", "measures": {"groups": "count"}}}
BY_COUNTRY = {"by_item": {"mode": "upsert"}}


@pytest.mark.parametrize(
    ("by", "tables"),
    [(["items.seller_id", "items.category"], BY_SELLER), ("sellers.country", BY_COUNTRY)],
    ids=["seller", "country"],
)
def test_killed_between_two_stages(
    by: str | list[str], tables: dict[str, Any], jars: list[Path], tmp_path: Path
) -> None:
    """Every table equals its recomputation: final groups of promised sellers, and all groups so far."""
    assert jars
    document = PipelineText(AUCTION).document
    document["streams"]["items"]["punctuated_on"] = ["item_id", "seller_id"]
    document["steps"]["by_item"]["aggregate"]["by"] = by
    if "again" in tables:
        document["steps"]["again"] = AGAIN
    pipeline = tmp_path / "auction.yaml"
    pipeline.write_text(yaml.safe_dump(document | {"tables": tables}, sort_keys=False))
    options = FeedOptions(seed=7, minutes=0.2, rate=1_000, sellers=SELLERS, bad_rate=0.002)
    with Broker(tmp_path / "broker") as own:
        warehouse = Warehouse(tmp_path, own, f"sqlite:///{tmp_path / 'relation.db'}", options, pipeline)
        feed = threading.Thread(target=warehouse.feed)
        feed.start()
        job = warehouse.start_job("--set=batch.records=500")
        wait_for(lambda: warehouse.batches() > 4, job)
        job.kill()
        feed.join()
        warehouse.run_to_the_end()
        with StreamProducer(own.bootstrap, "items", document["streams"]["items"]["columns"]) as items:
            items.punctuate({"seller_id": one_of(1, *range(2, SELLERS, 2))})
        warehouse.run_to_the_end()
        report = warehouse.verify()
    assert report.ok, report.to_json()
    rows = {table.table: table.actual for table in report.tables}
    groups = DeltaTable(str(tmp_path / "warehouse" / "by_item")).to_pyarrow_table()
    if "again" in tables:
        promised = {1, *range(2, SELLERS, 2)}
        assert set(groups["items_seller_id"].to_pylist()) <= promised
        assert rows["by_item"] > SELLERS / 4
        assert rows["open"] > rows["by_item"]
        assert SELLERS / 4 < rows["again"] == rows["again_so_far"] < rows["by_item"]
    else:
        assert groups.num_rows == len(set(groups["sellers_country"].to_pylist())) > 1
        assert not any(groups["final"].to_pylist())
