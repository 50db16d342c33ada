"""Pipelines of three streams that are joined in one operator, or two of which are one by a union.

They run from the broker to the tables, over a restart.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaProducer

from endmark.embedded.broker import Broker
from endmark.embedded.process import ManagedProcess
from endmark.pipeline.file import load
from endmark.verify.verification import verify
from endmark_feed.papers.names import parse_workload
from endmark_feed.papers.products import fill_products
from endmark_feed.papers.topic_feed import run_workload
from endmark_feed.producer import create_topics
from support.unions import TOPICS, closes, document, order

KEYS = 300
ROWS = 3  # of each key and stream, on average
STREAMS = ("orders", "payments", "shipments")


def pipeline_file(folder: Path, topics: dict[str, str], memory: str | None) -> Path:
    """Three streams that close each of their keys; the orders are looked up first."""
    stream = {
        "columns": {"key": "long", "serial": "long", "at": "timestamp"},
        "event_time": {"column": "at"},
        "punctuated_on": ["key"],
    }
    products = {
        "url": f"sqlite:///{folder / 'relation.db'}",
        "table": "sold_products",
        "key": "product_id",
        "columns": {"product_id": "long", "name": "string", "price": "double", "description": "string"},
    }
    declared = {
        "name": topics["orders"],
        "streams": {name: {"topic": topics[name], **stream} for name in STREAMS},
        "relations": {"products": products},
        "steps": {
            "priced": {"from": "orders", "lookup": {"relation": "products", "key": "key", "miss": "nulls"}},
            "fulfilled": {
                "join": ["priced", "payments", "shipments"],
                "on": "key",
                "where": "orders_serial + payments_serial <> shipments_serial",
                "memory": memory,
            },
            "by_key": {
                "from": "fulfilled",
                "aggregate": {"by": "key", "measures": {"rows": "count", "last": {"max": "shipments.at"}}},
            },
        },
        "tables": {"fulfilled": {}, "by_key": {}, "running": {"from": "by_key", "mode": "upsert"}},
        "batch": {"records": 1_000},
    }
    file = folder / "pipeline.yaml"
    file.write_text(json.dumps(declared))
    return file


def run(file: Path, broker: Broker, name: str) -> None:
    """Run a job until it has read all records; its tables are beside the file."""
    folder = file.parent
    command = [sys.executable, "-m", "endmark.cli", "run", str(file), "--json", "--available-now"]
    command += [f"--bootstrap={broker.bootstrap}", f"--warehouse={folder / 'warehouse'}"]
    command += [f"--checkpoint={folder / 'checkpoint'}", "--buckets=2"]
    command += [f"--ops-url=sqlite:///{folder / 'ops.db'}"]
    ManagedProcess("job", command, folder / f"job-{name}.log", stop_seconds=90).wait_done(300)


@pytest.mark.parametrize("memory", [None, "20kB"])
def test_three_streams_are_joined_at_once(
    memory: str | None, broker: Broker, jars: list[Path], tmp_path: Path
) -> None:
    """The second run goes on with the state of the first, and every table is equal to its recomputation."""
    assert jars
    topics = {name: f"{name}_{memory}" for name in STREAMS}
    fill_products(f"sqlite:///{tmp_path / 'relation.db'}", KEYS)
    file = pipeline_file(tmp_path, topics, memory)
    workload = parse_workload(f"cluster-asc-{ROWS}", KEYS)

    create_topics(broker.bootstrap, dict.fromkeys(topics.values(), 2))
    for number, (name, topic) in enumerate(topics.items()):
        if name == "shipments":
            run(file, broker, "first")
        published = run_workload(workload, broker.bootstrap, topic, seed=number, partitions=2, pace="fast")
        assert published.punctuations == KEYS
    run(file, broker, "second")

    report = verify(load(file, {}), broker.bootstrap, tmp_path / "warehouse")
    assert report.ok, report.to_json()
    rows = {table.table: table.actual for table in report.tables}
    assert 0.9 * KEYS < rows["by_key"] == rows["running"] <= KEYS
    assert rows["fulfilled"] > KEYS * ROWS
    assert rows["violations"] == rows["dead_letters"] == 0
    assert rows["punctuations"] == KEYS * len(STREAMS)


def test_two_topics_are_one_stream(broker: Broker, jars: list[Path], tmp_path: Path) -> None:
    """Each key has an order in both topics, which differ in their numbers of partitions. The first run reads
    the punctuations of the web alone, and the second one those of the stores."""
    assert jars
    file = tmp_path / "pipeline.yaml"
    file.write_text(json.dumps(document() | {"batch": {"records": 200}}))
    create_topics(broker.bootstrap, TOPICS)
    web = [order("web", key, key / 10, partition=key % 2) for key in range(KEYS)]
    web += [closes("web", key, key % 2) for key in range(KEYS)]
    stores = [order("stores", key, key / 10, total=5) for key in range(KEYS)]
    stores += [closes("stores", {"order_id": {"between": {"to": KEYS - 1}}}), order("stores", 7, KEYS)]
    payments = [order("payments", key, key / 10) for key in range(KEYS)]
    payments += [closes("payments", key) for key in range(KEYS)]
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        for number, some in enumerate(([*web, *payments], stores)):
            for each in some:
                producer.send(each.topic, each.value, partition=each.partition)
            producer.flush()
            run(file, broker, str(number))

    report = verify(load(file, {}), broker.bootstrap, tmp_path / "warehouse")
    assert report.ok, report.to_json()
    rows = {table.table: table.actual for table in report.tables}
    assert (rows["by_order"], rows["paid"]) == (KEYS, 2 * KEYS)
    assert (rows["violations"], rows["dead_letters"]) == (1, 0)
    assert [topic.records for topic in report.topics[:3]] == [2 * KEYS, KEYS + 2, 2 * KEYS]
