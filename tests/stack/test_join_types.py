"""Joins beyond the inner one, from the broker to the tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from endmark.embedded.broker import Broker
from endmark.errors import MissingPartError
from endmark.pipelines import AUCTION
from endmark_feed.auction_feed import FeedOptions
from support.warehouse import Warehouse

OPTIONS = FeedOptions(seed=11, minutes=0.1, rate=3_000, sellers=1_000, bad_rate=0.002)

CORES = 2
PHASES = [
    *["read", "parse", "pack", "shuffle", "lookup", "hand_over"],
    *["unpack", "probe", "purge", "aggregate", "load", "store", "files"],
]


def test_full_join_with_a_condition(tmp_path: Path) -> None:
    """Rows of both sides without partner are in the table beside the pairs, each once, and all of it is
    what the recomputation has. The batch says where its time went."""
    text = AUCTION.read_text()
    condition = "bids_price >= 1.5 * items_start_price"
    pipeline = tmp_path / "full.yaml"
    pipeline.write_text(
        text.replace("    on: item_id\n", f"    on: item_id\n    type: full\n    where: {condition}\n")
    )
    with Broker(tmp_path / "broker") as broker:
        relation = f"sqlite:///{tmp_path / 'relation.db'}"
        warehouse = Warehouse(tmp_path, broker, relation, OPTIONS, pipeline)
        warehouse.feed()
        warehouse.run_to_the_end()
        report = warehouse.verify()
        batch = warehouse.batch()
        require_refused(warehouse)

    assert report.ok, report.to_json()
    results = DeltaTable(tmp_path / "warehouse" / "results").to_pyarrow_table(
        columns=["items_item_id", "bids_item_id"]
    )
    items, bids = (column.null_count for column in results.columns)
    assert items > 0
    assert bids > 0
    assert results.num_rows - items - bids > 0

    assert batch is not None
    spent = {phase: batch.samples[f"profile_seconds_total{{phase={phase}}}"] for phase in PHASES}
    assert min(spent.values()) > 0, spent
    assert sum(spent.values()) <= CORES * batch.samples["compute_seconds"]
    assert batch.samples["write_seconds{table=results}"] > 0
    assert batch.samples["state_commit_seconds"] > 0


def require_refused(warehouse: Warehouse) -> None:
    """The checkpoint takes no job of other buckets, another preset or a key of another type."""
    text = warehouse.pipeline.read_text()
    full, pwjoin = "    type: full\n", "    type: full\n    preset: pwjoin\n"
    for buckets, old, new, said in [
        (7, full, full, "buckets was 2, is 7"),
        (2, full, pwjoin, 'steps.matched.preset was "auto", is "pwjoin"'),
        (2, "item_id: long", "item_id: string", 'columns.item_id was "long", is "string"'),
    ]:
        warehouse.pipeline.write_text(text.replace(old, new))
        with pytest.raises(MissingPartError, match="failed with code 2") as refused:
            warehouse.start_job("--available-now", f"--buckets={buckets}").wait_done(60)
        message = json.loads(str(refused.value).splitlines()[-1])["error"]
        assert "was made with other settings: " in message
        assert said in message
        assert "begin a new checkpoint by `endmark migrate FILE`, which says what it costs" in message
    warehouse.pipeline.write_text(text)
