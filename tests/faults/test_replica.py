"""The copy of a database's table, by Debezium's changes and a killed job; and tables that come later."""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from kafka import KafkaProducer

from endmark.driver.published_topics import known_topics
from endmark.embedded.broker import Broker
from endmark.embedded.process import ManagedProcess
from endmark.maintenance import maintain
from endmark.pipeline.file import load
from endmark.verify.verification import verify
from endmark_feed.producer import create_topics
from support.change_stream import PARTITIONS, customer, envelope, replica
from support.output_topic import read_topic
from support.warehouse import wait_for

CUSTOMERS = 300
CHANGES = 8_000
KILLS = 2


class Customers:
    """A table that is changed at random, and what Debezium says of it."""

    def __init__(self, topic: str, seed: int) -> None:
        self.topic = topic
        self.rows: dict[int, dict[str, Any]] = {}
        self.again = 0  # insertions of a key that was deleted before
        self._chance = random.Random(seed)
        self._gone: set[int] = set()
        self._changes = 0

    def publish(self, broker: Broker, changes: int) -> None:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=5)
        for _ in range(changes):
            key, values = self._change()
            for value in values:
                producer.send(self.topic, value, str(key).encode(), partition=key % PARTITIONS)
            if self._changes % 500 == 0:
                time.sleep(0.2)
        producer.flush()
        producer.close()

    def _change(self) -> tuple[int, list[bytes | None]]:
        """One change of the table: its key, and the values of its records."""
        self._changes += 1
        key = self._chance.randrange(CUSTOMERS)
        before = self.rows.get(key)
        if before is not None and self._chance.random() < 0.1:
            del self.rows[key]
            self._gone.add(key)
            return key, [envelope("d", before, None), None]
        self.again += before is None and key in self._gone
        name = self._chance.choice([None, f"name {self._changes}"])
        self.rows[key] = customer(key, self._changes / 100, self._chance.randint(1, 4), name)
        return key, [envelope("c" if before is None else "u", before, self.rows[key])]


@pytest.mark.parametrize("partition_by", [(), ("changes_seller_id",)], ids=["whole", "partitioned"])
def test_a_table_is_what_the_database_has(
    partition_by: tuple[str, ...], broker: Broker, jars: list[Path], tmp_path: Path
) -> None:
    """Killed at any time, beside upkeep, and with deleted customers who come again. Later the history of all
    changes is a table and a topic, too."""
    assert jars
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance, topic = random.Random(seed), f"customers_{len(partition_by)}"
    customers = Customers(topic, seed)
    create_topics(broker.bootstrap, {topic: PARTITIONS, f"{topic}_spelled": 2})
    file, warehouse = tmp_path / "pipeline.yaml", tmp_path / "warehouse"
    document = replica(partition_by=list(partition_by), derived=True)
    document["streams"]["changes"]["topic"] = topic
    document["steps"]["spelled"].pop("drop")
    document |= {"name": topic, "batch": {"records": 500, "every": "200ms"}}
    file.write_text(json.dumps(document))

    def job(*extra: str) -> ManagedProcess:
        command = [sys.executable, "-m", "endmark.cli", "run", str(file), "--json", "--buckets=2", *extra]
        command += [f"--bootstrap={broker.bootstrap}", f"--warehouse={warehouse}"]
        command += [f"--checkpoint={tmp_path / 'checkpoint'}", f"--ops-url=sqlite:///{tmp_path / 'ops.db'}"]
        return ManagedProcess("job", command, tmp_path / f"job-{len(extra)}.log", stop_seconds=90)

    def version(table: str) -> int:
        path = str(warehouse / table)
        return DeltaTable(path).version() if DeltaTable.is_deltatable(path) else 0

    def newer(than: int) -> bool:
        return version("now") > than

    feed = threading.Thread(target=customers.publish, args=(broker, CHANGES), daemon=True)
    feed.start()
    for _ in range(KILLS):
        before = version("now")
        killed = job()
        wait_for(partial(newer, before + 2), killed)
        maintain(load(file, {}), warehouse, timedelta(days=1), dry_run=False)
        time.sleep(chance.uniform(0, 2))
        killed.kill()
    feed.join()
    job("--available-now").wait_done(300)
    require_copy(customers, file, broker, warehouse)
    assert customers.again > 100

    document["tables"]["history"] = {"from": "changes"}
    document["publish"] = {"spelled": {"topic": f"{topic}_spelled"}}
    file.write_text(json.dumps(document))
    customers.publish(broker, 500)
    job("--available-now").wait_done(300)
    report = require_copy(customers, file, broker, warehouse)
    assert report["history"][0] > 0
    assert report["now"][0] == 0
    assert 400 < report["history"][1] <= 500
    spelled = [record for record in read_topic(broker.bootstrap, f"{topic}_spelled") if record.is_result]
    assert len(spelled) == report["history"][1]


def require_copy(
    customers: Customers, file: Path, broker: Broker, warehouse: Path
) -> dict[str, tuple[int, int]]:
    """Assert that the table is the database's, and that `verify` agrees; return the first batch and the
    number of rows of each table."""
    rows = DeltaTable(str(warehouse / "now")).to_pyarrow_table().to_pylist()
    assert len(rows) == len(customers.rows)
    assert {row["changes_customer_id"]: (row["changes_seller_id"], row["changes_name"]) for row in rows} == {
        key: (row["seller_id"], row["name"]) for key, row in customers.rows.items()
    }
    since = {topic: known.since for topic, known in known_topics(file.with_name("checkpoint")).items()}
    report = verify(load(file, {}), broker.bootstrap, warehouse, first_published=since)
    assert report.ok, report.to_json()
    return {table.table: (table.first_batch, table.actual) for table in report.tables}
