"""A job that copies a table by Debezium's changes in Avro, whose schema is in a registry and changes."""

from __future__ import annotations

import re
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from kafka import KafkaProducer

from endmark.embedded.broker import Broker
from endmark.embedded.process import ManagedProcess
from endmark_feed.producer import create_topics
from support.avro_registry import (
    ENVELOPE,
    PUNCTUATION,
    connected,
    encoded,
    envelope_schema,
    framed,
    punctuation,
)
from support.registry_server import RegistryServer

pytestmark = pytest.mark.timeout(900)

PAGE = Path(__file__).parents[2] / "docs" / "avro.md"
TOPIC = "shop.public.customers"
START = datetime(2026, 1, 31, 12, tzinfo=UTC)
DECIMAL = "org.apache.kafka.connect.data.Decimal"
PARAMETERS = {"scale": "2", "connect.decimal.precision": "9"}


def value_schema(*more: tuple[str, Any], credit: Any = None) -> dict[str, Any]:
    """The schema of a row image, as Confluent's converter writes it for a table of PostgreSQL."""
    decimal = connected("bytes", DECIMAL, logicalType="decimal", scale=2, precision=9)
    fields = [
        ("id", "int"),
        ("name", ["null", "string"]),
        ("credit", credit or decimal | {"connect.parameters": PARAMETERS}),
        ("born", connected("int", "io.debezium.time.Date")),
        ("changed", connected("string", "io.debezium.time.ZonedTimestamp")),
        *more,
    ]
    named = [{"name": name, "type": kind} for name, kind in fields]
    return {"type": "record", "name": "Value", "namespace": "shop.table", "fields": named}


def envelopes(value: dict[str, Any]) -> dict[str, Any]:
    return envelope_schema(["null", value], ["null", "shop.table.Value"])


FIRST = envelopes(value_schema())
SECOND = envelopes(value_schema(("level", ["null", "int"])))
WRONG = envelopes(value_schema(credit="double"))


def customer(key: int, name: str | None, seconds: int) -> dict[str, Any]:
    changed = (START + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
    born = (date(1999, 12, 31) - date(1970, 1, 1)).days
    row = {"id": key, "name": name, "credit": Decimal("-1.50"), "born": born, "changed": changed}
    return row | {"level": 3}


def change(number: int, schema: Any, op: str, before: Any, after: Any) -> bytes:
    return framed(number, encoded(schema, ENVELOPE | {"op": op, "before": before, "after": after}))


def test_a_table_is_copied(tmp_path: Path) -> None:
    """Updates and deletions count, and a new column of the table is left out. A wrong schema is named."""
    old, new = customer(1, "old", 0), customer(1, None, 1)
    first: list[bytes | None] = [
        change(1, FIRST, "r", None, old),
        change(1, FIRST, "c", None, customer(2, "gone", 0)),
        change(1, FIRST, "u", old, new),
        change(1, FIRST, "d", customer(2, "gone", 0), None),
        None,
        framed(3, punctuation({"changed": {"between": {"to": "2026-01-31T11:00:00Z"}}})),
    ]
    letters = [
        change(4, WRONG, "c", None, customer(8, "wrong", 2) | {"credit": 1.5}),
        change(1, FIRST, "t", None, None),
        framed(1, b"\2"),
    ]
    second = [change(2, SECOND, "c", None, customer(3, "new", 3)), *letters]
    with Broker(tmp_path / "broker") as broker, RegistryServer(tmp_path / "registry") as registry:
        for number, schema in enumerate([FIRST, SECOND, PUNCTUATION, WRONG], 1):
            assert registry.register(f"subject-{number}", schema) == number
        _, _, text = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
        (tmp_path / "customers.yaml").write_text(text)
        create_topics(broker.bootstrap, {TOPIC: 1, "customers-control": 1})

        def command(name: str, *arguments: str) -> None:
            words = [sys.executable, "-m", "endmark.cli", name, str(tmp_path / "customers.yaml"), *arguments]
            words += [f"--bootstrap={broker.bootstrap}", f"--warehouse={tmp_path / 'warehouse'}"]
            log = tmp_path / f"{name}-{len(list(tmp_path.glob('*.log')))}.log"
            job = ManagedProcess(name, ["env", f"REGISTRY_URL={registry.url}", *words], log, stop_seconds=90)
            job.wait_done(300)

        for values in (first, second):
            producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
            for value in values:
                producer.send(TOPIC, value, b"2")
            producer.close()
            ops = f"--ops-url=sqlite:///{tmp_path / 'ops.db'}"
            command("run", "--available-now", f"--checkpoint={tmp_path / 'checkpoint'}", ops)
        command("verify")

    def table(name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (
            DeltaTable(str(tmp_path / "warehouse" / name)).to_pyarrow_table().to_pylist()
        )
        return found

    rows = {row["changes_id"]: row for row in table("customers")}
    assert {key: row["changes_name"] for key, row in rows.items()} == {1: None, 3: "new"}
    assert (rows[1]["changes_credit"], rows[1]["changes_born"]) == (Decimal("-1.50"), date(1999, 12, 31))
    assert rows[1]["changes_changed"] == START + timedelta(seconds=1)
    found = {row["value"]: (row["reason"], row["error"]) for row in table("dead_letters")}
    assert [found[letter][0] for letter in letters] == ["wrong_type", "bad_envelope", "malformed"]
    assert found[letters[0]][1].startswith("schema 4: field 'credit' must be readable as decimal(9,2)")
