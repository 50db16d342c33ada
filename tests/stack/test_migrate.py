"""A changed pipeline file: what docs/knobs.md says about a new checkpoint, on a broker and with jobs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from deltalake import DeltaTable
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from endmark.driver.checkpoint import claimed
from endmark.embedded.broker import Broker
from endmark_feed.producer import create_topics

PAGE = Path(__file__).parents[2] / "docs" / "knobs.md"
TOPIC = "shop-paid"
SHOP = f"""
name: shop
streams:
  payments:
    topic: {TOPIC}
    columns: {{order_id: long, cents: long, method: string, paid_at: timestamp}}
    event_time: {{column: paid_at}}
    punctuated_on: order_id
steps:
  by_order: {{from: payments, aggregate: {{by: order_id, measures: {{paid: {{sum: cents}}}}}}}}
tables:
  payments: {{from: payments}}
  groups: {{from: by_order}}
"""
GROUPS = re.compile(r"^  by_order: .*$", re.MULTILINE)


def payment(order: int, second: int, **more: str) -> dict[str, object]:
    return {"order_id": order, "cents": 150, "paid_at": f"2026-01-31T12:00:{second:02}Z", **more}


def payments() -> list[dict[str, object]]:
    """Return 51 payments of 40 orders, of which one has a note, and punctuations that close 30 orders."""
    noted = payment(10, 50, method="card", note="thanks")
    closed: list[dict[str, object]] = [
        {"$punctuation": {"order_id": {"equals": number}}} for number in range(30)
    ]
    return [*(payment(number % 40, number, method="card") for number in range(50)), noted, *closed]


def publish(bootstrap: str, *records: dict[str, object]) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for record in records:
        producer.send(TOPIC, json.dumps(record).encode())
    producer.flush()
    producer.close()


def test_columns_and_measures_change(broker: Broker, jars: list[Path], tmp_path: Path) -> None:
    """A column becomes optional and one is added while orders are open. An earlier record with its name stays
    a dead letter. A job refuses a new measure and says what to do. The plan is the page's. The new tables
    have each record once, and the old ones are kept. Tables are not verified without their first records."""
    assert jars
    section = PAGE.read_text().split("## Begin a new checkpoint\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^```(yaml|sh|text)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    (_, line), (_, ask), (_, told), (_, change) = blocks
    file, home = tmp_path / "shop.yaml", tmp_path / "var" / "shop"
    file.write_text(SHOP)
    create_topics(broker.bootstrap, {TOPIC: 1})
    publish(broker.bootstrap, *payments())

    def shell(commands: str, code: int = 0) -> str:
        bin_directory = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=tmp_path,
            env=os.environ | {"PATH": bin_directory, "ENDMARK_BOOTSTRAP": broker.bootstrap},
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert ended.returncode == code, ended.stderr
        return ended.stdout if code == 0 else ended.stderr

    shell("endmark run shop.yaml --available-now")
    changed = SHOP.replace("method: string", 'note: "string?", method: "string?"')
    file.write_text(changed)
    publish(broker.bootstrap, payment(40, 51), payment(41, 52, note="new"))
    shell("endmark run shop.yaml --available-now && endmark verify shop.yaml")
    shell("endmark verify shop.yaml --checkpoint elsewhere", code=1)
    notes = Counter(row["payments_note"] for row in rows(home / "warehouse" / "payments"))
    assert notes == {None: 51, "new": 1}
    file.write_text(GROUPS.sub(line.rstrip("\n"), changed))
    refused = shell("endmark run shop.yaml --available-now", code=2)
    assert "aggregate.measures.highest was left out, is" in refused
    assert "`endmark migrate FILE`" in refused
    with claimed(home / "checkpoint"):
        assert "is in use by another job" in shell(change, code=2)

    assert without_ids(shell(ask)) == without_ids(told)
    said = shell(change)

    assert "done; start the job: endmark run shop.yaml\n" in said
    [aside] = home.glob("warehouse/before-*")
    old, new = (
        {name: rows(directory / name) for name in ("payments", "groups", "dead_letters")}
        for directory in (aside, home / "warehouse")
    )
    assert [(len(old[name]), len(new[name])) for name in old] == [(52, 53), (30, 30), (1, 0)]
    assert {row["payments_note"] for row in new["payments"]} == {None, "new", "thanks"}

    first = {TopicPartition(TOPIC, 0): 7}
    KafkaAdminClient(bootstrap_servers=broker.bootstrap).delete_records(first)
    lacking = (
        f"{TOPIC}: 76 records; 7 before them are gone (partition 0 begins at offset 7, the job began at 0)"
    )
    assert "of topic shop-paid partition 0, which the job has read" in shell(
        "endmark verify shop.yaml", code=2
    )
    assert f"  {lacking}\n" in shell(ask)
    assert f"the new tables would lack rows of {lacking}" in shell("endmark migrate shop.yaml --yes", code=2)
    assert rows(home / "warehouse" / "payments") == new["payments"]
    found = json.loads(shell("endmark migrate shop.yaml --yes --accept-loss --json"))
    assert (found["done"], found["topics"][1]["losses"][0]["available"]) == (True, 7)
    assert rows(home / "warehouse" / found["aside"] / "payments") == new["payments"]


def without_ids(text: str) -> str:
    return re.sub(r"before-[0-9a-f]{8}", "before-", text)


def rows(table: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = DeltaTable(table).to_pyarrow_table().to_pylist()
    return found
