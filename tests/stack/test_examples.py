"""The example pipelines beside the auction, from their feeds to tables that verify."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from endmark.embedded.broker import Broker
from endmark.pipelines import AUCTION
from support.commands import endmark
from support.output_topic import read_topic


@pytest.mark.parametrize("name", ["fulfilment", "news", "orders"])
def test_an_example_verifies(name: str, broker: Broker, jars: list[Path], tmp_path: Path) -> None:
    """All of it in Kafka once, done by a bounded run, and equal to its recomputation."""
    assert jars
    where = {"ENDMARK_RELATION_URL": f"sqlite:///{tmp_path / 'relation.db'}"}
    where |= {"ENDMARK_BOOTSTRAP": broker.bootstrap, "ENDMARK_WAREHOUSE": str(tmp_path / "warehouse")}
    where |= {"ENDMARK_OPS_URL": f"sqlite:///{tmp_path / 'ops.db'}"}
    file = str(AUCTION.with_name(f"{name}.yaml"))

    fed = endmark("feed-example", name, "--minutes=0.2", "--rate=1500", "--pace=fast", "--json", **where)
    assert fed.returncode == 0, fed.stdout + fed.stderr
    *_, published = (json.loads(line) for line in fed.stdout.splitlines())
    checkpoint = f"--checkpoint={tmp_path / 'checkpoint'}"
    ran = endmark("run", file, checkpoint, "--available-now", "--json", **where)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    verified = endmark("verify", file, "--json", **where)

    assert verified.returncode == 0, verified.stdout + verified.stderr
    report = json.loads(verified.stdout)
    assert report["ok"]
    tables = {table["table"]: table["actual"] for table in report["tables"]}
    topics = {topic["topic"]: topic for topic in report["topics"] if "control" not in topic["topic"]}
    read = published["rows"] + published["punctuations"]
    assert sum(topic["records"] for topic in topics.values()) == read > 15_000
    if name == "fulfilment":
        orders, payments, shipments = topics.values()
        assert tables["fulfilled"] > 3_000
        assert tables["by_country"] == 17  # guests have none
        assert tables["punctuations"] >= 3 * tables["fulfilled"]  # one on the order of each stream
        assert orders["filtered"] > 50
        assert orders["lookup_missed"] > 50
        assert orders["violations"]["repeated"] > 0
        assert all(topic["dead_letters"] > 0 for topic in topics.values())
        assert all(topic["violations"]["closed"] > 0 for topic in (payments, shipments))
        results = [each for each in read_topic(broker.bootstrap, "fulfilled") if each.is_result]
        assert len(results) == tables["fulfilled"]
        [topic] = report["published"]
        assert topic["equal"]
        assert topic["actual"] > tables["fulfilled"]
        by_day = DeltaTable(str(tmp_path / "warehouse" / "fulfilled"))
        assert by_day.metadata().partition_columns == ["orders_day"]
        assert len(by_day.partitions()) > 1
        return
    assert not any(any(topic["violations"].values()) for topic in topics.values())
    if name == "news":
        articles = topics["news-articles"]["rows"]
        assert (tables["results"], tables["groups"]) == (10 * articles, articles)
        assert tables["dead_letters"] == 0
    else:
        captured = topics["shop.orders"]
        assert captured["skipped"] == captured["punctuations"] > 2_000
        assert 0 < captured["dead_letters"] < 100  # updates
        assert 0 < captured["lookup_missed"] < 100
        assert tables["running"] >= tables["groups"]  # whose last rows are counted
        assert 0.85 < tables["groups"] / captured["rows"] < 0.95  # of orders that are paid
