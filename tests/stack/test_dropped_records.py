"""Jobs that were down for longer than Kafka keeps records: what they refuse, skip, and never forget."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from endmark.embedded.broker import Broker
from endmark_feed.producer import create_topics

FILE = """
name: {name}
streams:
  rows: {{topic: {name}, columns: {{k: long, at: timestamp}}, event_time: {{column: at}}, punctuated_on: k}}
steps:
  by_k: {{from: rows, aggregate: {{by: k, measures: {{rows: count}}}}}}
tables:
  {tables}
publish: {{by_k: {{topic: {name}-groups}}}}
"""
ROWS, GROUPS = "rows: {from: rows}", "groups: {from: by_k}"
SKIP = "--skip-dropped-records"


class Shop:
    """A pipeline of one topic, and a directory of its own."""

    def __init__(self, name: str, broker: Broker, home: Path, *tables: str) -> None:
        self.name = name
        self.home = home / "var" / name
        self.checkpoint = self.home / "checkpoint"
        self._broker = broker
        self._directory = home
        (home / "shop.yaml").write_text(FILE.format(name=name, tables="\n  ".join(tables)))
        create_topics(broker.bootstrap, {name: 1, f"{name}-groups": 1})

    def send(self, *keys: int, closing: Iterable[int] = ()) -> None:
        """Send a row of each key, and then a punctuation of each key in `closing`."""
        producer = KafkaProducer(bootstrap_servers=self._broker.bootstrap)
        for key in keys:
            row = {"k": key, "at": "2026-01-31T12:00:00Z"}
            producer.send(self.name, json.dumps(row).encode(), partition=0)
        for key in closing:
            promise = {"$punctuation": {"k": {"equals": key}}}
            producer.send(self.name, json.dumps(promise).encode(), partition=0)
        producer.close()

    def drop(self, before: int) -> None:
        """Let Kafka drop all records before an offset, as its retention does."""
        admin = KafkaAdminClient(bootstrap_servers=self._broker.bootstrap)
        admin.delete_records({TopicPartition(self.name, 0): before})
        admin.close()

    def endmark(self, *arguments: str, code: int = 0) -> str:
        """Run a command; return what it writes, errors first."""
        ended = subprocess.run(
            [str(Path(sys.executable).parent / "endmark"), *arguments],
            cwd=self._directory,
            env=os.environ | {"ENDMARK_BOOTSTRAP": self._broker.bootstrap},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ended.returncode == code, ended.stderr
        return ended.stderr + ended.stdout

    def run(self, *options: str, code: int = 0) -> str:
        return self.endmark("run", "shop.yaml", "--available-now", *options, code=code)

    def status(self) -> Any:
        return json.loads(self.endmark("status", self.name, "--json"))

    def keys(self, table: str, column: str) -> list[int]:
        found = DeltaTable(self.home / "warehouse" / table).to_pyarrow_table()
        return sorted(found[column].to_pylist())

    def lose_last_commit(self) -> None:
        """Leave the last batch unfinished, as a crash behind its tables does."""
        commits = self.checkpoint / "spark" / "commits"
        last = max(int(file.name) for file in commits.iterdir() if file.name.isdecimal())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)


@pytest.fixture(autouse=True)
def _needed(jars: list[Path]) -> None:
    assert jars


def test_a_job_skips_what_it_is_told_to_skip(broker: Broker, tmp_path: Path) -> None:
    """A start refuses a gap in plain words, before Spark runs. One that may skip it goes on from the first
    record that Kafka holds. Later starts, `verify` and `status` know the gap."""
    shop = Shop("skipped", broker, tmp_path, ROWS, GROUPS)
    shop.send(*range(5))
    shop.run()
    shop.send(*range(5, 10))
    shop.drop(8)

    refused = shop.run(code=2)

    missing = "has dropped records that no batch has read: offsets 5 to 7 of topic skipped partition 0"
    assert missing in refused
    assert SKIP in refused
    assert "Traceback" not in refused
    assert "\tat " not in refused
    assert missing in shop.status()["run"]["error"]
    assert shop.status()["gaps"] == []
    assert shop.keys("rows", "rows_k") == [*range(5)]

    said = shop.run(SKIP)

    assert "skips offsets 5 to 7 of topic skipped partition 0, which Kafka has dropped" in said
    assert shop.keys("rows", "rows_k") == [*range(5), 8, 9]
    assert "earlier starts have skipped offsets 5 to 7 of topic skipped partition 0" in shop.run()
    assert shop.keys("rows", "rows_k") == [*range(5), 8, 9]
    status = shop.status()
    assert status["gaps"] == [{"topic": "skipped", "partition": 0, "first": 5, "end": 8}]
    [total] = [each for each in status["totals"] if each["name"] == "gap_offsets_total"]
    assert total["samples"] == [{"labels": {"topic": "skipped"}, "value": 3.0}]
    told = shop.endmark("status", "skipped")
    assert "gap: offsets 5 to 7 of topic skipped partition 0 were skipped, up to 3 records" in told
    unverified = shop.endmark("verify", "shop.yaml", "--until-read", code=2)
    assert "does not hold offsets 0 to 7" in unverified
    assert "the job has skipped offsets 5 to 7" in unverified

    shop.send(10, 11)
    shop.drop(12)
    shop.run(SKIP)

    assert shop.keys("rows", "rows_k") == [*range(5), 8, 9]
    status = shop.status()
    assert [(gap["first"], gap["end"]) for gap in status["gaps"]] == [(5, 8), (10, 12)]
    assert status["lag_records"] == 0
    assert "state_rows" in {total["name"] for total in status["totals"]}  # a batch of nothing has all buckets
    shop.send(12)
    shop.run()
    assert shop.keys("rows", "rows_k") == [*range(5), 8, 9, 12]


def test_state_goes_on_behind_a_gap(broker: Broker, tmp_path: Path) -> None:
    """Kafka still holds a part of an unfinished batch, and no table or topic has the batch. So the part is
    repeated. What a lost punctuation would have closed stays open until another one closes it."""
    shop = Shop("torn", broker, tmp_path, GROUPS)
    shop.run()
    shop.send(*range(5))
    shop.run()
    shop.lose_last_commit()
    shop.drop(3)

    shop.run(SKIP)

    shop.send(4, closing=[4])
    shop.drop(7)
    shop.send(closing=[3, 4])
    shop.run(SKIP)
    shop.send(5, 6)
    shop.run()
    shop.lose_last_commit()
    shop.drop(10)
    shop.run(SKIP)
    shop.send(closing=[5, 6])
    shop.run()
    groups = DeltaTable(shop.home / "warehouse" / "groups").to_pyarrow_table().to_pylist()
    assert sorted((row["k"], row["rows"]) for row in groups) == [(3, 1), (4, 1), (6, 1)]
    gaps = [(gap["first"], gap["end"]) for gap in shop.status()["gaps"]]
    assert gaps == [(0, 3), (5, 7), (9, 10)]


def test_a_batch_that_a_table_has_is_not_repeated_in_part(broker: Broker, tmp_path: Path) -> None:
    """State would never know rows that the table has. The tables stay as they are."""
    shop = Shop("written", broker, tmp_path, ROWS, GROUPS)
    shop.send(*range(5))
    shop.run()
    shop.lose_last_commit()
    shop.drop(3)

    refused = shop.run(SKIP, code=2)

    assert "batch 0 was not finished, and Kafka has dropped records of it: offsets 0 to 2" in refused
    assert "table rows has the batch already" in refused
    assert "endmark migrate FILE --accept-loss" in refused
    assert not (shop.checkpoint / "endmark" / "gaps.json").exists()
    assert shop.keys("rows", "rows_k") == [*range(5)]


def test_tables_behind_a_gap_at_the_start_are_verified(broker: Broker, tmp_path: Path) -> None:
    """The job has read all that Kafka holds. The report says what it has not read."""
    shop = Shop("young", broker, tmp_path, ROWS, GROUPS)
    shop.run()
    shop.send(*range(5), closing=range(5))
    shop.drop(2)
    assert "offsets 0 to 1 of topic young" in shop.run(code=2)

    shop.run(SKIP)

    report = json.loads(shop.endmark("verify", "shop.yaml", "--until-read", "--json"))
    assert report["ok"]
    assert report["gaps"] == [{"topic": "young", "partition": 0, "first": 0, "end": 2}]
    assert shop.keys("groups", "k") == [2, 3, 4]
    assert "has skipped offsets 0 to 1 of young/0" in " ".join(shop.endmark("verify", "shop.yaml").split())
