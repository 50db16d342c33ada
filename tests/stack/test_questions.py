"""The questions of docs/questions.md, each asked of a job by the commands that the page names."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from kafka import KafkaProducer

from endmark.embedded.broker import Broker
from endmark.embedded.mariadb import MariaDb
from endmark.errors import MissingPartError
from endmark.pipelines import AUCTION
from endmark_feed.auction_feed import FeedOptions
from endmark_feed.producer import create_topics
from support.commands import endmark
from support.warehouse import Warehouse, errors, wait_for

PAGE = Path(__file__).parents[2] / "docs" / "questions.md"
OPEN = 42  # the item that bids do not close


def publish(broker: Broker, numbers: range) -> None:
    """Publish items and bids that are then over, in one partition; the other one of bids stays silent."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for number in numbers:
        item = {"item_id": number, "seller_id": 1, "category": "art", "start_price": 1.0}
        bid = {
            "bid_id": number,
            "item_id": number,
            "seller_id": 1 + number % 20,
            "bidder_id": 1,
            "price": 2.0,
        }
        over = {"$punctuation": {"item_id": {"equals": number}}}
        for topic, record in (
            ("items", item | {"listed_at": "2026-01-01T14:00:00Z"}),
            ("bids", bid | {"bid_at": "2026-01-01T14:00:01Z"}),
            ("items", over),
            ("bids", over),
        ):
            if (topic, record) != ("bids", over) or number != OPEN:
                producer.send(topic, json.dumps(record).encode(), partition=0)
    producer.send("bids", b'{"bid_id": "none"}', partition=0)
    producer.close()


def named_commands() -> list[str]:
    """Return the commands of the page's table."""
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return list(dict.fromkeys(re.findall(r"`endmark ([^`]+)`", "\n".join(rows))))


# What each command of the page says here. Patterns stand in the order of the lines.
SAYS = {
    "status NAME": (
        r"auction is running",
        r"last batch: \d+, \d+ s ago, took \d+\.\d\d s",
        r"behind: 0 records",
        r"progress of bids: none yet",
        r"bids: progress is held back by partition 1, which has had no row yet",
        r"progress of items: 2026-01-01 14:00:00 UTC",
    ),
    "why FILE order_id=42": (
        r"item_id=42 is open in matched because bids has not closed it: no partition of topic bids has sent",
        r"ends when bids' progress passes 2026-01-01T14:01:00Z \(none yet, since partition 1 had no row",
    ),
    "knobs list FILE": (r"Ann turned batch\.records from 20000 to 5000 in batch \d+\n\Z",),
    "dead-letters list FILE": (
        r"bids/0/119  wrong_type: field 'bid_id' must be long like 42, but is \"none\"",
    ),
    "knobs fields FILE": (
        r"streams\.items\.columns\.category: new checkpoint",
        r"relations\.sellers\.retry: restart",
        r"batch\.records: live",
    ),
    "migrate FILE": (
        r"streams\.bids\.columns",
        r"items: 140 records",
        r"nothing is changed yet; add --yes to do it",
    ),
    "plan FILE": (r"8 MB hold [\d,]+ waiting rows", r"hybrid: the pages of the oldest waiting rows"),
    "validate FILE": (
        r"items rows: bounded by window 1 minute after bids' progress and by bids' punctuations",
    ),
}


def test_each_question_has_its_answer(jars: list[Path], tmp_path: Path) -> None:
    """Lag, an open item, a turned knob, dead letters, a kill, a change, a silent partition, and no MySQL."""
    assert jars
    commands = named_commands()
    assert set(commands) == set(SAYS)
    pipeline, changed = tmp_path / "auction.yaml", tmp_path / "changed.yaml"
    pipeline.write_text(AUCTION.read_text().replace("table: sellers", "table: sellers\n    retry: 2s"))
    changed.write_text(pipeline.read_text().replace("bidder_id: long", "bidder_id: string"))
    with Broker(tmp_path / "broker") as broker, MariaDb(tmp_path / "mariadb") as database:
        create_topics(broker.bootstrap, {"items": 1, "bids": 2, "auction-control": 1})
        warehouse = Warehouse(tmp_path, broker, database.url, FeedOptions(seed=5, sellers=20), pipeline)
        here = warehouse.environment() | {"ENDMARK_RELATION_URL": database.url}
        publish(broker, range(60))
        job = warehouse.start_job()
        wait_for(lambda: warehouse.batches() > 0, job)
        turn = endmark("knobs", "set", str(pipeline), "batch.records", "5000", "--by=Ann", **here)
        assert turn.returncode == 0, turn.stderr
        job.kill()
        publish(broker, range(60, 70))
        away = endmark("status", "auction", **here).stdout
        assert re.search(r"behind: 4[12] records \(21 of bids, 20 of items(, 1 of auction-control)?\)", away)

        job = warehouse.start_job()
        wait_for(lambda: "behind: 0 records" in endmark("status", "auction", **here).stdout, job)
        for command in commands:
            file = changed if command.startswith("migrate") else pipeline
            written = command.replace("FILE", str(file)).replace("NAME", "auction")
            answer = endmark(*shlex.split(written.replace("order_id", "item_id")), **here)
            assert answer.returncode == 0, answer.stderr
            assert re.search(".*".join(SAYS[command]), answer.stdout, re.DOTALL), answer.stdout

        database.stop()
        publish(broker, range(70, 80))
        with pytest.raises(MissingPartError):
            job.wait_done(120)
        gone = endmark("status", "auction", **here).stdout
        assert re.search("error: .* relation 'sellers': the database did not answer for 2 s", gone), errors(
            job
        )
        database.start()
        warehouse.run_to_the_end()
        report = warehouse.verify()
    assert report.ok, report.to_json()
    assert {table.table: table.actual for table in report.tables}["results"] == 80
