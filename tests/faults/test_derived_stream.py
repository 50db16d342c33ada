"""Two joins on different keys in one query, from the broker to the tables, killed and started again."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from deltalake import DeltaTable
from kafka import KafkaProducer

from endmark.control.tuning.knobs import as_number
from endmark.embedded.broker import Broker
from endmark.embedded.process import ManagedProcess
from endmark.pipeline import Pipeline
from endmark.pipeline.file import load
from endmark.verify.session import Session
from endmark.verify.verification import verify
from endmark_feed.producer import create_topics
from endmark_feed.relation import KEY
from support.hashable_rows import hashable_row
from support.two_stages import NAMES, Definition, row, two_stages
from support.verify_recompute import SELLERS
from support.verify_world import Record, locate
from support.warehouse import wait_for

ORDERS, CUSTOMERS, PARTITIONS = 1_500, 600, 2
SELLERS_TABLE = sa.Table(
    "sellers",
    sa.MetaData(),
    sa.Column("seller_id", KEY, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(40)),
    sa.Column("rating", sa.Double),
)


def pipeline_of(url: str) -> Pipeline:
    """Return a pipeline that looks paid orders up, joins tickets of customers, and counts by customer."""
    document: dict[str, Any] = two_stages(
        paid={"window": "60s"},
        served={"type": "left", "window": {"known": "30s", "tickets": "90s"}},
        promised={
            "orders": ["order_id", "customer_id"],
            "payments": ["order_id"],
            "tickets": ["customer_id"],
        },
        lookup=("paid", {"miss": "nulls"}),
        by=["customer_id"],
    ).model_dump()
    document["relations"]["sellers"]["url"] = url
    document["tables"]["grouped"] = {"mode": "upsert"}
    document["batch"] = {"records": 300}
    return Pipeline.model_validate(document | {"unbounded_state": "refuse"})


def records() -> list[Record]:
    """Orders, each paid a while later, and tickets of their customers; nobody orders any more in the end."""
    chance = random.Random(7)
    timed: list[tuple[float, Record]] = []
    for number in range(ORDERS):
        at, customer = number / 10, chance.randrange(CUSTOMERS)
        timed.append((at, row("orders", at, number % PARTITIONS, order_id=number, customer_id=customer)))
        paid = at + chance.uniform(0, 50)
        timed.append((paid, row("payments", paid, number % PARTITIONS, order_id=number)))
        of = chance.randrange(CUSTOMERS)
        timed.append((at, row("tickets", at, of % PARTITIONS, customer_id=of)))
    timed.sort(key=lambda each: each[0])
    end = json.dumps({"$punctuation": {"customer_id": {"anything": True}}}).encode()
    ends = [
        Record(f"all.{name}", place, end) for name in ("orders", "tickets") for place in range(PARTITIONS)
    ]
    return [*(record for _, record in timed), *ends]


def counted(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(hashable_row(each[name] for name in sorted(each)) for each in rows)


def test_killed_between_two_joins(broker: Broker, jars: list[Path], tmp_path: Path) -> None:
    """The second run goes on with the state of both stages; tables equal their SQL and `verify`."""
    assert jars
    url = f"sqlite:///{tmp_path / 'relation.db'}"
    engine = sa.create_engine(url)
    SELLERS_TABLE.create(engine)
    with engine.begin() as connection:
        connection.execute(
            SELLERS_TABLE.insert(),
            [{"seller_id": key, "name": name, "rating": rating} for key, name, rating in SELLERS],
        )
    pipeline, warehouse = pipeline_of(url), tmp_path / "warehouse"
    file = tmp_path / "pipeline.yaml"
    file.write_text(json.dumps(pipeline.model_dump(), default=as_number))
    create_topics(broker.bootstrap, {f"all.{name}": PARTITIONS for name in NAMES})
    sent = records()
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for each in sent:
        producer.send(each.topic, each.value, partition=each.partition)
    producer.close()

    def start(name: str, *extra: str) -> ManagedProcess:
        command = [sys.executable, "-m", "endmark.cli", "run", str(file), "--json", "--buckets=2", *extra]
        command += [f"--bootstrap={broker.bootstrap}", f"--warehouse={warehouse}"]
        command += [f"--checkpoint={tmp_path / 'checkpoint'}", f"--ops-url=sqlite:///{tmp_path / 'ops.db'}"]
        return ManagedProcess("job", command, tmp_path / f"job-{name}.log", stop_seconds=90)

    def rows(table: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = DeltaTable(str(warehouse / table)).to_pyarrow_table().to_pylist()
        return found

    job = start("first")
    served = str(warehouse / "served")
    wait_for(lambda: DeltaTable.is_deltatable(served) and len(rows("served")) > 100, job)
    job.kill()
    start("second", "--available-now").wait_done(300)

    results = rows("served")
    with Session() as session:
        definition = Definition(session, pipeline, locate(sent), {"violations": rows("violations")})
        assert counted(results) == counted(definition.results())
    customers = Counter(each["orders_customer_id"] for each in results)
    assert {each["customer_id"]: each["n"] for each in rows("grouped")} == customers
    assert sum(each["tickets_customer_id"] is None for each in results) > 0
    assert sum(each["tickets_customer_id"] is not None for each in results) > ORDERS
    report = verify(load(file, {}), broker.bootstrap, warehouse)
    assert report.ok, report.to_json()
    assert rows("punctuations") == rows("dead_letters") == rows("violations") == []
