"""A topic that was deleted and made anew under its name has other records at the offsets of the old one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from deltalake import DeltaTable
from kafka import KafkaAdminClient, KafkaProducer

from endmark.embedded.broker import Broker
from endmark_feed.producer import create_topics

TOPIC = "anew"
FILE = f"""
name: anew
streams:
  rows: {{topic: {TOPIC}, columns: {{k: long, at: timestamp}}, event_time: {{column: at}}, punctuated_on: k}}
steps: {{}}
tables: {{rows: {{}}}}
"""


def test_a_job_reads_no_offsets_of_another_topic(broker: Broker, jars: list[Path], tmp_path: Path) -> None:
    """A job refuses the new topic though it has more records than were read. It goes on once somebody says
    that the new topic is a copy."""
    assert jars
    (tmp_path / "anew.yaml").write_text(FILE)
    publish(broker, range(3))
    run(broker, tmp_path)
    assert keys(tmp_path) == [0, 1, 2]
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.delete_topics([TOPIC])
    deadline = time.monotonic() + 30
    while TOPIC in admin.list_topics():
        assert time.monotonic() < deadline
    admin.close()
    publish(broker, range(100, 105))

    refused = run(broker, tmp_path, code=2)

    assert f"topic {TOPIC} is not the one that this checkpoint has read" in refused
    assert keys(tmp_path) == [0, 1, 2]
    (tmp_path / "var" / "anew" / "checkpoint" / "endmark" / "topics.json").unlink()
    run(broker, tmp_path)
    assert keys(tmp_path) == [0, 1, 2, 103, 104]


def publish(broker: Broker, numbers: range) -> None:
    create_topics(broker.bootstrap, {TOPIC: 1})
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for number in numbers:
        producer.send(TOPIC, json.dumps({"k": number, "at": "2026-01-31T12:00:00Z"}).encode())
    producer.close()


def run(broker: Broker, home: Path, code: int = 0) -> str:
    command = [str(Path(sys.executable).parent / "endmark"), "run", "anew.yaml", "--available-now"]
    ended = subprocess.run(
        command,
        cwd=home,
        env=os.environ | {"ENDMARK_BOOTSTRAP": broker.bootstrap},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == code, ended.stderr
    return ended.stderr


def keys(home: Path) -> list[int]:
    table = DeltaTable(home / "var" / "anew" / "warehouse" / "rows").to_pyarrow_table()
    return sorted(table["rows_k"].to_pylist())
