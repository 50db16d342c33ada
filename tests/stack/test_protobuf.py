"""A job that reads Protobuf by the schemas of a registry, which change, and by a file."""

from __future__ import annotations

import json
import re
import sys
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
from support.proto_registry import PUNCTUATION, encoded, framed, punctuation
from support.registry_server import RegistryServer

pytestmark = pytest.mark.timeout(900)

PAGE = (Path(__file__).parents[2] / "docs" / "protobuf.md").read_text()
[PIPELINE] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
[FIRST] = re.findall(r"```proto\n(.*?)```", PAGE, re.DOTALL)
MORE = "message More { repeated string tags = 1; }"
# A later schema, as the registry has it and as one file. Records are the same by both.
REFERRING = FIRST.replace(
    "int64 order_id = 1;", "int64 order_id = 1; More more = 9; map<string, Order> x = 10;"
).replace("package shop;", 'package shop; import "shop/more.proto";')
SECOND = REFERRING.replace('import "shop/more.proto";', "") + MORE
WRONG = FIRST.replace("string amount", "double amount")
PAYMENTS = """
syntax = "proto3";
message Payment { int64 order_id = 1; Method method = 2; int64 paid_at = 3; }
enum Method { CARD = 0; CASH = 1; }
"""
START = datetime(2026, 1, 31, 12, tzinfo=UTC)


def order(schema: str, number: int, key: int, **more: Any) -> bytes:
    at = (START + timedelta(seconds=key)).isoformat().replace("+00:00", "Z")
    row = {"order_id": key, "amount": "1.50", "customer": {"city": "Delft"}, "state": "PAID", "at": at}
    return framed(number, encoded(schema, "shop.Order", row | more))


def test_schemas_change(tmp_path: Path) -> None:
    """Records by two schemas make rows. Others are dead letters, which name their schema."""
    closed = {"order_id": {"equals": 1}}
    orders = [
        order(FIRST, 1, 1),
        order(SECOND, 5, 2, more={"tags": ["a"]}, x={"y": {"order_id": 9}}),
        framed(1, encoded(FIRST, "shop.Order", {"order_id": 3, "amount": "2", "at": "2026-01-31T12:00:03Z"})),
        framed(3, punctuation(closed)),
    ]
    letters = [
        order(WRONG, 4, 8, amount=1.5),
        order(FIRST, 1, 9)[:-1],
        framed(999, b"\2"),
        framed(3, punctuation({"nothing": {"equals": 1}})),
    ]
    times = {key: int((START + timedelta(seconds=key)).timestamp() * 1000) for key in (1, 2, 3)}
    payments = [
        encoded(PAYMENTS, "Payment", {"order_id": key, "method": "CASH", "paid_at": at})
        for key, at in times.items()
    ]
    with Broker(tmp_path / "broker") as broker, RegistryServer(tmp_path / "registry") as registry:
        more = f'syntax = "proto3"; package shop; {MORE}'
        for number, schema in enumerate([FIRST, more, PUNCTUATION, WRONG], 1):
            assert registry.register(f"subject-{number}", schema) == number
        reference = {"name": "shop/more.proto", "subject": "subject-2", "version": 1}
        assert registry.register("orders", REFERRING, [reference]) == 5
        (tmp_path / "shop.yaml").write_text(PIPELINE)
        (tmp_path / "payments.proto").write_text(PAYMENTS)
        create_topics(broker.bootstrap, {"orders": 1, "payments": 1, "shop-control": 1})
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
        for topic, values in {"orders": [*orders, *letters], "payments": payments}.items():
            for value in values:
                producer.send(topic, value)
        producer.close()
        given = [f"REGISTRY_URL={registry.url}", f"PAYMENTS_PROTO={tmp_path / 'payments.proto'}"]

        def command(name: str, *arguments: str) -> None:
            words = [sys.executable, "-m", "endmark.cli", name, str(tmp_path / "shop.yaml"), *arguments]
            words += [f"--bootstrap={broker.bootstrap}", f"--warehouse={tmp_path / 'warehouse'}"]
            log = tmp_path / f"{name}.log"
            ManagedProcess(name, ["env", *given, *words], log, stop_seconds=90).wait_done(300)

        ops = f"--ops-url=sqlite:///{tmp_path / 'ops.db'}"
        command("run", "--available-now", f"--checkpoint={tmp_path / 'checkpoint'}", ops)
        command("verify")

    def table(name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (
            DeltaTable(str(tmp_path / "warehouse" / name)).to_pyarrow_table().to_pylist()
        )
        return found

    rows = {row["orders_order_id"]: row for row in table("paid")}
    assert {key: row["orders_city"] for key, row in rows.items()} == {1: "Delft", 2: "Delft", 3: None}
    assert {key: row["orders_state"] for key, row in rows.items()} == {1: "PAID", 2: "PAID", 3: "NEW"}
    assert (rows[2]["orders_amount"], rows[2]["payments_method"]) == (Decimal("1.50"), "CASH")
    assert rows[3]["orders_at"] == START + timedelta(seconds=3)
    assert 1 in {row["order_id"] for row in table("by_order")}, json.dumps(closed)
    found = {row["value"]: (row["reason"], row["error"]) for row in table("dead_letters")}
    assert [found[letter][0] for letter in letters] == [
        "wrong_type",
        "malformed",
        "unknown_schema",
        "bad_punctuation",
    ]
    assert found[letters[0]][1].startswith("schema 4: field 'amount' must be readable as decimal(18,2)")
