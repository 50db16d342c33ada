"""A job whose columns come from inner objects, keys, headers and timestamps of records, on a real broker."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from endmark.embedded.broker import Broker
from endmark.embedded.process import ManagedProcess
from endmark_feed.producer import create_topics

pytestmark = pytest.mark.timeout(900)

PAGE = Path(__file__).parents[2] / "docs" / "wire-format.md"
NOW = 1000 * int(time.time())
Headers = list[tuple[str, str | bytes | None]]
HEADERS: Headers = [("tenant", b"old"), ("x-weight", b"2.5"), ("tenant", b"north"), ("trace", None)]


class Shop:
    """The page's pipeline in a directory, and its topics."""

    def __init__(self, directory: Path, broker: Broker) -> None:
        self._directory, self._broker = directory, broker
        [text] = re.findall(r"```yaml\n(name: shop\n.*?)```", PAGE.read_text(), re.DOTALL)
        (directory / "shop.yaml").write_text(text)
        create_topics(broker.bootstrap, {"orders": 2, "payments": 1, "shop-control": 1})
        self._producer = Producer({"bootstrap.servers": broker.bootstrap})

    def send(
        self,
        topic: str,
        value: Any,
        key: bytes | None = None,
        headers: Headers | None = None,
        partition: int = 0,
        timestamp: int = NOW,
    ) -> None:
        sent = value if isinstance(value, bytes) else json.dumps(value).encode()
        self._producer.produce(
            topic, value=sent, key=key, partition=partition, timestamp=timestamp, headers=headers or []
        )
        self._producer.flush(30)

    def order(self, number: int, **record: Any) -> None:
        """Send an order to a partition by its number."""
        customer = {"id": 100 + number, "city": None if number == 2 else "Ulm", "name": {"first": ["Ann"]}}
        value = {"order_id": number, "order": {"customer": customer, "lines": [1, {}]}, "note": "n"}
        usual = {"key": b"7", "headers": HEADERS, "timestamp": NOW + number}
        self.send("orders", value, partition=number % 2, **{**usual, **record})

    def payment(self, number: int, **record: Any) -> None:
        value = {"payment": {"method": "card"}, "@timestamp": NOW + number}
        self.send("payments", value, **{"key": json.dumps({"order": number, "shop": 1}).encode(), **record})

    def closes(self, number: int) -> None:
        """Send a punctuation for an order to both topics, without keys and headers."""
        for topic, partition in (("orders", number % 2), ("payments", 0)):
            self.send(topic, {"$punctuation": {"order_id": {"equals": number}}}, partition=partition)

    def command(self, name: str, *arguments: str) -> str:
        """Run a command to its end, and return what it has printed."""
        words = [
            sys.executable,
            "-m",
            "endmark.cli",
            *name.split(),
            str(self._directory / "shop.yaml"),
            *arguments,
        ]
        words += [f"--bootstrap={self._broker.bootstrap}", f"--warehouse={self._directory / 'warehouse'}"]
        if name != "verify":
            words += [f"--ops-url=sqlite:///{self._directory / 'ops.db'}"]
        if name == "run":
            words += [f"--checkpoint={self._directory / 'checkpoint'}", "--available-now"]
        log = self._directory / f"{name}-{len(list(self._directory.glob('*.log')))}.log"
        ManagedProcess(name, words, log, stop_seconds=90).wait_done(300)
        return log.read_text()

    def table(self, name: str) -> list[dict[str, Any]]:
        path = str(self._directory / "warehouse" / name)
        found: list[dict[str, Any]] = DeltaTable(path).to_pyarrow_table().to_pylist()
        return found


def test_columns_of_all_parts_of_a_record(tmp_path: Path) -> None:
    """Unfit keys and headers are dead letters that say so, and a replay of one keeps its key and headers."""
    with Broker(tmp_path / "broker") as broker:
        shop = Shop(tmp_path, broker)
        for number in range(4):
            shop.order(number)
            shop.payment(number)
        shop.order(4, key=None, headers=[("tenant", b"south")])
        shop.payment(4)
        shop.order(5, headers=[])
        shop.order(6, key=b"seven")
        shop.order(7, headers=[*HEADERS, ("x-weight", b"heavy")])
        shop.order(8, headers=[*HEADERS, ("tenant", None)])
        shop.payment(9, key=None)
        shop.payment(10, key=b'{"order": "ten"}')
        shop.send("orders", {"order_id": 11, "order": {"customer": 3}}, b"7", HEADERS, 1, NOW + 11)
        shop.send("orders", b"{", b"7", HEADERS, 1, NOW + 12)
        for number in range(3):
            shop.closes(number)
        shop.command("run")

        groups = {row["order_id"]: row for row in shop.table("by_order")}
        assert groups == {
            number: {"order_id": number, "payments": 1, "city": None if number == 2 else "Ulm"}
            for number in range(3)
        }
        paid = {row["orders_order_id"]: row for row in shop.table("paid")}
        assert sorted(paid) == [0, 1, 2, 3, 4]
        columns = ("customer_id", "city", "tenant", "weight", "clerk")
        assert [paid[3][f"orders_{name}"] for name in columns] == [103, "Ulm", "north", 2.5, 7]
        assert [paid[4][f"orders_{name}"] for name in columns] == [104, "Ulm", "south", None, None]
        assert paid[3]["orders_ordered_at"].timestamp() * 1000 == NOW + 3
        assert paid[3]["payments_method"] == "card"
        assert paid[3]["payments_paid_at"].timestamp() * 1000 == NOW + 3
        letters = sorted(
            (row["topic"], row["reason"], row["error"].partition(";")[0])
            for row in shop.table("dead_letters")
        )
        assert letters == [
            ("orders", "bad_header", "column 'tenant' is the record's header 'tenant', and there is none"),
            ("orders", "bad_header", "column 'tenant' is the record's header 'tenant', and there is none"),
            (
                "orders",
                "bad_header",
                "column 'weight' must be double? like 1.5, but the record's header 'x-weight' is 'heavy'",
            ),
            ("orders", "bad_key", "column 'clerk' must be long? like 42, but the record's key is 'seven'"),
            letters[4],
            ("orders", "wrong_type", "field 'order.customer' must be an object or null, but is 3"),
            ("payments", "bad_key", "column 'order_id' is in the record's key, and there is none"),
            (
                "payments",
                "bad_key",
                "the record's key: field 'order' must be long like 42, but is \"ten\"",
            ),
        ]
        assert letters[4][1] == "malformed"

        [broken] = [row for row in shop.table("dead_letters") if row["reason"] == "malformed"]
        place = f"orders/1/{broken['offset']}"
        mended = {"order_id": 3, "order": {"customer": {"id": 999}}}
        shop.command("dead-letters replay", place, f"--value={json.dumps(mended)}", "--by=Ann")
        shop.command("run")

        again = [row for row in shop.table("paid") if row["orders_customer_id"] == 999]
        assert [(row["orders_tenant"], row["orders_clerk"], row["orders_weight"]) for row in again] == [
            ("north", 7, 2.5)
        ]
        assert again[0]["orders_ordered_at"].timestamp() * 1000 == NOW + 12
        said = shop.command("verify")
    assert "equal" in said
