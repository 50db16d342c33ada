"""A job that reads Avro by the schemas of a registry, which change, are unknown, and are away."""

from __future__ import annotations

import json
import re
import sys
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from kafka import KafkaProducer

from endmark.embedded.broker import Broker
from endmark.embedded.process import ManagedProcess
from endmark_feed.producer import create_topics
from support.avro_registry import PUNCTUATION, encoded, framed, logical, punctuation
from support.registry_server import RegistryServer

pytestmark = pytest.mark.timeout(900)

PAGE = Path(__file__).parents[2] / "docs" / "avro.md"
START = datetime(2026, 1, 31, 12, tzinfo=UTC)


def record(name: str, **fields: Any) -> dict[str, Any]:
    declared = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "namespace": "shop", "fields": declared}


AMOUNT = logical("bytes", "decimal", precision=9, scale=2)
MICROS, MILLIS = logical("long", "timestamp-micros"), logical("long", "timestamp-millis")
FIRST = record("Order", order_id="int", amount=AMOUNT, at=MICROS)
SECOND = record(
    "Order",
    tags={"type": "array", "items": "string"},
    order_id="long",
    note=["null", "string"],
    amount=AMOUNT,
    at=MILLIS,
)
WRONG = record("Order", order_id="long", amount="double", at=MILLIS)
SHOP = {"type": "enum", "name": "Name", "namespace": "shop", "symbols": ["north", "south"]}
THIRD = record("Order", order_id="long", amount=AMOUNT, at=MILLIS, shop=SHOP)
SCHEMAS = {1: FIRST, 2: PUNCTUATION, 3: SECOND, 4: WRONG, 5: SHOP, 6: THIRD}
REFERRING = {6: record("Order", order_id="long", amount=AMOUNT, at=MILLIS, shop="shop.Name")}
REFERENCES = {6: [{"name": "shop.Name", "subject": "subject-5", "version": 1}]}
METHOD = {"type": "enum", "name": "Method", "symbols": ["CARD", "CASH"]}
PAYMENTS = [record("Payment", order_id="long", method=METHOD, at="long"), PUNCTUATION]


class Shop:
    """The broker's topics, the registry, and the page's pipeline in a directory."""

    def __init__(self, directory: Path, broker: Broker, registry: RegistryServer) -> None:
        self._directory, self._broker, self._registry = directory, broker, registry
        text, *_ = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
        (directory / "shop.yaml").write_text(text)
        (directory / "payments.avsc").write_text(json.dumps(PAYMENTS))
        self.given = {"REGISTRY_URL": registry.url, "PAYMENTS_AVSC": str(directory / "payments.avsc")}
        create_topics(broker.bootstrap, {"orders": 1, "payments": 1, "shop-control": 1})
        self.register()

    def register(self) -> None:
        """Register all schemas, which get the same ids each time."""
        for number, schema in SCHEMAS.items():
            registered = REFERRING.get(number, schema), REFERENCES.get(number, [])
            assert self._registry.register(f"subject-{number}", *registered) == number

    def send(self, topic: str, *values: bytes) -> None:
        producer = KafkaProducer(bootstrap_servers=self._broker.bootstrap)
        for value in values:
            producer.send(topic, value)
        producer.close()

    def order(self, number: int, schema: int) -> None:
        """Send an order by one of the schemas, its payment, and a punctuation of each."""
        at, closed = START + timedelta(seconds=number), {"order_id": {"equals": number}}
        row = {"order_id": number, "amount": Decimal("1.50"), "at": at, "shop": "north"}
        row |= {"note": "by the second", "tags": ["a", "b"]}
        written = {"order_id": number, "method": "CASH", "at": int(at.timestamp() * 1000)}
        self.send("orders", framed(schema, encoded(SCHEMAS[schema], row)), framed(2, punctuation(closed)))
        self.send(
            "payments",
            encoded(PAYMENTS, ("shop.Payment", written)),
            encoded(PAYMENTS, ("endmark.Punctuation", {"punctuation": json.dumps(closed)})),
        )

    def command(self, name: str, *arguments: str) -> ManagedProcess:
        words = [sys.executable, "-m", "endmark.cli", name, str(self._directory / "shop.yaml"), *arguments]
        words += [f"--bootstrap={self._broker.bootstrap}", f"--warehouse={self._directory / 'warehouse'}"]
        if name == "run":
            words += [f"--checkpoint={self._directory / 'checkpoint'}"]
            words += [f"--ops-url=sqlite:///{self._directory / 'ops.db'}"]
        log = self._directory / f"{name}-{len(list(self._directory.glob('*.log')))}.log"
        environment = ["env", *(f"{key}={value}" for key, value in self.given.items())]
        return ManagedProcess(name, [*environment, *words], log, stop_seconds=90)

    def table(self, name: str) -> list[dict[str, Any]]:
        path = str(self._directory / "warehouse" / name)
        if not DeltaTable.is_deltatable(path):
            return []
        found: list[dict[str, Any]] = DeltaTable(path).to_pyarrow_table().to_pylist()
        return found

    def wait_for(self, table: str, rows: int, job: ManagedProcess) -> None:
        until = time.monotonic() + 300
        while len(self.table(table)) < rows:
            assert job.running, job.log.read_text()
            assert time.monotonic() < until, job.log.read_text()
            time.sleep(0.5)


def test_schemas_change_and_the_registry_is_away(tmp_path: Path) -> None:
    """Known schemas are read on. The job stops for another one and names it. Later nothing is missing."""
    letters = [
        framed(4, encoded(WRONG, {"order_id": 98, "amount": 1.5, "at": START})),
        framed(999, b"\2"),
        framed(1, encoded(FIRST, {"order_id": 99, "amount": Decimal(1), "at": START})[:-1]),
        framed(2, encoded(PUNCTUATION, {"punctuation": '{"nothing": {"equals": 1}}'})),
    ]
    with Broker(tmp_path / "broker") as broker, RegistryServer(tmp_path / "registry") as registry:
        shop = Shop(tmp_path, broker, registry)
        for number in range(5):
            shop.order(number, 1)
        job = shop.command("run")
        try:
            shop.wait_for("by_order", 5, job)
            shop.order(5, 3)
            shop.send("orders", *letters)
            shop.order(6, 1)
            shop.wait_for("by_order", 7, job)
            shop.wait_for("dead_letters", len(letters), job)

            registry.kill()
            shop.order(7, 3)
            shop.order(8, 1)
            shop.wait_for("by_order", 9, job)
            shop.order(9, 6)
            with pytest.raises(Exception, match="failed with code 1"):
                job.wait_done(120)
        finally:
            job.kill()
        registry.start()
        shop.register()
        shop.command("run", "--available-now").wait_done(240)
        shop.command("verify").wait_done(120)

    said = job.log.read_text()
    assert f"schema registry at {registry.url} did not answer for 10 s when asked for schema 6: " in said
    groups = {row["order_id"]: row for row in shop.table("by_order")}
    assert sorted(groups) == list(range(10))
    assert {row["amount"] for row in groups.values()} == {Decimal("1.50")}
    assert {number for number, row in groups.items() if row["note"] == "by the second"} == {5, 7}
    found = {row["value"]: (row["reason"], row["error"]) for row in shop.table("dead_letters")}
    assert [found[letter][0] for letter in letters] == [
        "wrong_type",
        "unknown_schema",
        "malformed",
        "bad_punctuation",
    ]
    assert found[letters[0]][1].startswith("schema 4: field 'amount' must be readable as decimal(18,2)")
    assert found[letters[1]][1].startswith(f"schema 999: the registry at {registry.url} has no schema 999")
