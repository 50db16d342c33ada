"""Sends ten thousand hostile inputs to a running job and its sidecar.

The inputs are records in each format, knobs, pipeline files and requests. The attack fails unless, at its
end, the job runs, every record is accounted for, every table is right, and memory and file descriptors are
back where they were.

`make test-attacks` runs it, and `make test` does not: it takes about twelve minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from attacks import payloads
from attacks.clients import API, NAME, Attacker
from endmark.control.ops_database.database import OpsDatabase
from endmark.embedded.broker import Broker
from endmark.embedded.mariadb import MariaDb
from endmark.embedded.process import ManagedProcess
from endmark.engine.streams import check_conditions
from endmark.errors import ConfigError
from endmark.pipeline import Pipeline
from endmark.pipeline.file import load
from endmark_feed.auction_feed import FeedOptions
from support.ops_sidecar import Sidecar
from support.processes import descendants, selectors
from support.warehouse import Warehouse, errors, wait_for

TOKEN = "attacker-0123456789abcdef"  # noqa: S105  # of a sidecar that lives as long as this run
PIPELINE = """\
name: attacked
streams:
  items:
    topic: items
    format: {items}
    columns: {{item_id: long, seller_id: long, listed_at: timestamp}}
    event_time: {{column: listed_at, lateness: 36500d}}
    punctuated_on: {items_closed}
    quarantine: off
  bids:
    topic: bids
    format: {bids}
    columns:
      {{item_id: long, seller_id: long, price: double, urgent: boolean, note: string, due: date,
       tip: "decimal(6,2)", bid_at: timestamp}}
    event_time: {{column: bid_at, lateness: 36500d}}
    punctuated_on: [item_id, seller_id]
    # It fails for all sellers but the first seven, and is true of none.
    closes: {{on: item_id, when: seller_id + 9223372036854775800 < 0}}
    quarantine: off
relations:
  sellers:
    url: ${{ENDMARK_RELATION_URL}}
    table: sellers
    key: seller_id
    columns: {{seller_id: long, name: string}}
steps:
  known:
    from: bids
    lookup:
      {{relation: sellers, key: seller_id, page_rows: 50, time_per_batch: 1s, cache: {{}}, autotune: true}}
  matched:
    join: [items, known]
    on: item_id
    where: items_seller_id + bids_seller_id * 4611686018427387904 > 0
    window: 60s
  by_item:
    from: matched
    aggregate:
      by: item_id
      measures: {{bids: count, tips: {{sum: bids.tip}}, mean: {{avg: bids.price}}}}
tables:
  results: {{from: matched}}
  groups: {{from: by_item}}
batch: {{every: 500ms}}
"""
# Timestamps of records in Unix milliseconds. Spark converts them to microseconds.
_STAMPS = 0, 1, 2**40, 2**53, 9_223_372_036_854_776, 2**62, 2**63 - 1
# The format of items, the format of bids, and the columns that items are punctuated on. A deletion of
# Debezium names all of these columns, and `closings` name the item.
Formats = tuple[str, str, str]
FORMATS: tuple[Formats, ...] = (
    ("json", "xml", "[item_id, seller_id]"),
    ("debezium", "json", "[item_id]"),
    ("json", "json", "[seller_id]"),
)
# A tree of processes may have so many more bytes and file descriptors at the end.
MORE_BYTES, MORE_FILES = 200_000_000, 60
# Each start of a query leaves a selector in Spark 4.2.1, with a socket and an event descriptor
# (`endmark.driver.pace`). The job starts its query again at most five times in 150 s.
FILES_PER_SELECTOR = 3
STARTS, STARTS_SECONDS = 5, 150.0
# The heap always grows to its limit of 1 GB. Classes, compiled code and RocksDB take memory beside it.
JAVA_BYTES = 1_900_000_000
# This is longer than any batch takes, and longer than a turn may wait for the next start of a query (150 s).
STANDS_SECONDS = 300.0
FILE_SECONDS = 20.0
LOG_BYTES = 1_000_000
SETTLED_SECONDS = 420.0


@dataclass(frozen=True)
class Attack:
    """The numbers of generated inputs, for all attacked jobs together."""

    records: int = 6_000
    control: int = 1_400
    turns: int = 600
    files: int = 1_000
    requests: int = 1_000
    seed: int = 0


@dataclass(frozen=True)
class Usage:
    """The memory and file descriptors of a process and all its descendants at one time.

    Args:
        python: memory of the Python processes, in bytes.
        java: memory of the Java processes, in bytes.
        files: the number of open file descriptors.
        selectors: how many of `files` are selectors.
        time: when this was measured, in seconds that never go back.
    """

    python: int
    java: int
    files: int
    selectors: int
    time: float

    @classmethod
    def of(cls, pid: int) -> Usage:
        memory = {"python": 0, "java": 0}
        files = 0
        processes = descendants(pid)
        for one in processes:
            try:
                pages = int(Path(f"/proc/{one}/statm").read_text().split()[1])
                files += len(list(Path(f"/proc/{one}/fd").iterdir()))
                kind = "java" if "java" in Path(f"/proc/{one}/comm").read_text() else "python"
            except OSError:
                continue
            memory[kind] += pages * os.sysconf("SC_PAGESIZE")
        return cls(**memory, files=files, selectors=selectors(processes), time=time.monotonic())

    def is_within(self, before: Usage) -> bool:
        """Return whether this exceeds `before` by no more than the limits allow."""
        starts = STARTS * (1 + (self.time - before.time) / STARTS_SECONDS)
        more = min(starts, max(0, self.selectors - before.selectors))
        return (
            self.python < before.python + MORE_BYTES
            and self.java < JAVA_BYTES
            and self.files < before.files + MORE_FILES + FILES_PER_SELECTOR * more
        )


def settled(pid: int, before: Usage, whose: str) -> Usage:
    """Return the usage of a process as soon as it is within limits.

    Args:
        pid: the process.
        before: its usage before the attack.
        whose: the process's name for the error.

    Raises:
        AssertionError: the process still exceeds the limits after `SETTLED_SECONDS`.
    """
    until = time.monotonic() + SETTLED_SECONDS
    while not (after := Usage.of(pid)).is_within(before):
        assert time.monotonic() < until, f"{whose}: {before} before, {after} after"
        time.sleep(5.0)
    return after


def pipeline_text(items: str, bids: str, items_closed: str) -> str:
    """Return the text of the attacked pipeline.

    Args:
        items: the format of the stream of items.
        bids: the format of the stream of bids.
        items_closed: the columns that items are punctuated on, as a YAML list.
    """
    return PIPELINE.format(items=items, bids=bids, items_closed=items_closed)


def files_refused(chance: random.Random, sound: str, count: int) -> dict[str, int]:
    """Load damaged pipeline files; return how many were read and how many were refused.

    Args:
        chance: the source of chance.
        sound: the text of a sound pipeline file.
        count: the number of files.

    Raises:
        AssertionError: a file that must be refused was read or refused for another reason, or a file took
            longer than `FILE_SECONDS`.
    """
    found = {"read": 0, "refused": 0}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "pipeline.yaml"
        for text, says in payloads.refused_files(sound):
            refusal = _refusal(path, text)
            assert refusal is not None, text[:2_000]
            assert says in refusal, (refusal, says)
            found["refused"] += 1
        for text in payloads.pipeline_files(chance, sound, count - found["refused"]):
            found["read" if _refusal(path, text) is None else "refused"] += 1
    return found


def _refusal(path: Path, text: bytes) -> str | None:
    """Read a pipeline file and its conditions; return why it is refused, or `None`."""
    path.write_bytes(text)
    began = time.monotonic()
    try:
        check_conditions(load(path, {"ENDMARK_RELATION_URL": "sqlite://"}))
    except ConfigError as error:
        return str(error)
    finally:
        assert time.monotonic() - began < FILE_SECONDS, text[:2_000]
    return None


class Target:
    """A broker, a warehouse with a job, and its sidecar."""

    def __init__(self, directory: Path, broker: Broker, database: MariaDb, formats: Formats) -> None:
        path = directory / "attacked.yaml"
        path.write_text(pipeline_text(*formats))
        feed = FeedOptions(seed=1, sellers=500)
        self.warehouse = Warehouse(directory, broker, database.url, feed, path)
        self.warehouse.ops_url = database.url
        self.pipeline: Pipeline = load(path, {"ENDMARK_RELATION_URL": database.url})
        self._bootstrap = broker.bootstrap
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        two: dict[str, Any] = {"num_partitions": 2, "replication_factor": 1}
        admin.create_topics({"items": two, "bids": two})
        admin.close()

    def send(self, topic: str, values: Iterable[bytes | None], partitions: int) -> int:
        """Send records to partitions in turn, 50 every tenth of a second so that many batches see them.

        Args:
            topic: the topic.
            values: the values of the records; `None` is a tombstone.
            partitions: the number of partitions.
        """
        producer = KafkaProducer(bootstrap_servers=self._bootstrap)
        count = 0
        for count, value in enumerate(values, 1):
            producer.send(topic, value, b"key", partition=count % partitions)
            if count % 50 == 0:
                producer.flush()
                time.sleep(0.1)
        producer.close()
        return count

    def send_stamped(self, topic: str, value: bytes) -> int:
        """Send a record once with each odd timestamp; return how many of them the broker takes."""
        producer = KafkaProducer(bootstrap_servers=self._bootstrap)
        taken = 0
        for stamp in _STAMPS:
            with suppress(KafkaError):
                producer.send(topic, value, b"key", partition=0, timestamp_ms=stamp).get(30)
                taken += 1
        producer.close()
        return taken

    def wait_read(self, job: ManagedProcess) -> None:
        """Wait until the job has read all records of the topics.

        Turns make batches as small as one record: 200 control records took 200 s. So the job may be slow, but
        it must always make progress.
        """
        last, since = self._read(), time.monotonic()
        while (read := self._read()) != self._ends():
            if read != last:
                last, since = read, time.monotonic()
            assert job.running, errors(job)
            assert time.monotonic() - since < STANDS_SECONDS, f"read {read} of {self._ends()}, and no further"
            time.sleep(1.0)

    def _ends(self) -> dict[str, dict[str, int]]:
        consumer = KafkaConsumer(bootstrap_servers=self._bootstrap)
        topics = ["items", "bids", self.pipeline.control_topic]
        places = [
            TopicPartition(topic, each)
            for topic in topics
            for each in consumer.partitions_for_topic(topic) or ()
        ]
        ends = consumer.end_offsets(places)
        consumer.close()
        found: dict[str, dict[str, int]] = {}
        for place, end in ends.items():
            if end:
                found.setdefault(place.topic, {})[str(place.partition)] = end
        return found

    def _read(self) -> dict[str, dict[str, int]]:
        with closing(OpsDatabase(self.warehouse.ops_url)) as ops:
            batch = ops.batches.latest(NAME)
        read = {} if batch is None else batch.offsets
        ends = {topic: {at: end for at, end in each.items() if end} for topic, each in read.items()}
        return {topic: each for topic, each in ends.items() if each}

    def batches(self) -> int:
        with closing(OpsDatabase(self.warehouse.ops_url)) as ops:
            batch = ops.batches.latest(NAME)
        return 0 if batch is None else batch.batch_id + 1


def attacked(attack: Attack, formats: Formats, directory: Path) -> dict[str, Any]:
    """Attack one job with its share of records, turns and requests; return the figures of the attack.

    Args:
        attack: the numbers of inputs for all jobs.
        formats: the formats of this job.
        directory: where the job, the broker and the database keep their files.

    Raises:
        AssertionError: the job has ended, a table is wrong, or memory or file descriptors were not freed.
    """
    chance = random.Random(attack.seed)
    with Broker(directory / "broker") as broker, MariaDb(directory / "mariadb") as database:
        target = Target(directory, broker, database, formats)
        job = target.warehouse.start_job("--driver-memory=1g")
        wait_for(lambda: target.batches() > 0 or _is_running(target), job, 300)
        reach = {"tokens": f"attacker:write:{TOKEN}", "bootstrap": broker.bootstrap}
        log = directory / "sidecar.log"
        sidecar = Sidecar(target.warehouse.ops_url, reach=reach, log=log)
        sidecar.start()
        try:
            client = Attacker(sidecar.url, TOKEN)
            _send_sound(chance, target)
            target.wait_read(job)
            before = Usage.of(job.pid), Usage.of(sidecar.pid)
            sound = payloads.sound_row(chance, target.pipeline.streams["items"])
            stamped = target.send_stamped("items", sound)
            statuses = _send_all(chance, attack, target, client)
            floods = _overwhelm(client)
            target.send("items", payloads.ends(target.pipeline.streams["items"]), 2)
            target.wait_read(job)
            after = settled(job.pid, before[0], "job"), settled(sidecar.pid, before[1], "sidecar")
            assert job.running, errors(job)
            assert client.is_healthy()
            assert log.stat().st_size < LOG_BYTES, log.read_text()[-2_000:]
        finally:
            sidecar.stop()
        job.stop()
        target.warehouse.run_to_the_end()
        report = target.warehouse.verify()
        assert report.ok, report.to_json()
        rows = {table.table: table.actual for table in report.tables}
        assert min(rows.values()) > 0, f"some table has no rows: {rows}"
        return {
            "formats": formats,
            "batches": target.batches(),
            "odd_timestamps": stamped,
            "statuses": {str(status): count for status, count in sorted(statuses.items())},
            "flood_bytes": floods,
            "sidecar_log_bytes": log.stat().st_size,
            "rows": rows,
            "job": {"before": asdict(before[0]), "after": asdict(after[0])},
            "sidecar": {"before": asdict(before[1]), "after": asdict(after[1])},
        }


def _is_running(target: Target) -> bool:
    with closing(OpsDatabase(target.warehouse.ops_url)) as ops:
        run = ops.runs.latest(NAME)
    return run is not None and run["state"] == "running"


def _send_sound(chance: random.Random, target: Target) -> None:
    """Send enough sound records to fill the caches of Java, Python and the job."""
    for name, stream in target.pipeline.streams.items():
        values = [value for value in payloads.records(chance, stream, 600) if value is not None]
        target.send(name, values[-300:], 2)


def _send_all(chance: random.Random, attack: Attack, target: Target, client: Attacker) -> Counter[int]:
    share = len(FORMATS)
    for name, stream in target.pipeline.streams.items():
        target.send(name, payloads.records(chance, stream, attack.records // share // 2), 2)
        target.send(name, payloads.closings(stream), 2)
    target.send(target.pipeline.control_topic, payloads.control_records(chance, attack.control // share), 1)
    statuses: Counter[int] = Counter()
    for name, value in payloads.knob_turns(chance, attack.turns // share):
        statuses[client.turn(name, value)] += 1
    assert statuses.keys() <= {202, 307, 400, 404, 405, 409, 413, 422}, statuses
    for _ in range(attack.requests // share):
        client.ask(chance)
    assert client.is_healthy()
    assert client.status_as("127.0.0.1") == 200
    assert {client.status_as(host) for host in ("testserver", "evil.example", "")} == {400}
    # Restore the usual size and frequency of batches.
    client.turn("batch.every", "500ms")
    client.turn("batch.records", 100_000)
    return statuses


def _overwhelm(client: Attacker) -> dict[str, int]:
    """Open half-open connections and send endless heads and bodies; the sidecar must answer meanwhile."""
    with client.half_open(1_100):
        assert client.is_healthy(), "1,100 half-open connections keep others out"
    host = b"Host: 127.0.0.1\r\n"
    head = client.flood(b"GET / HTTP/1.1\r\n" + host + b"X-Long: ", 200_000_000)
    sized = f"PUT {API}/knobs/batch.every HTTP/1.1\r\n".encode() + host + b"Content-Length: 100000000\r\n\r\n"
    taken = {
        "head": head,
        "body": client.flood_body(100_000_000),
        "body without a token": client.flood(sized, 100_000_000),
    }
    assert client.is_healthy()
    assert max(taken.values()) < 20_000_000, taken  # more than loopback's buffers hold
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--share", type=float, default=1.0, help="Of the inputs; 1: ten thousand.")
    options = parser.parse_args()
    print(f"repeat with: --seed={options.seed}", flush=True)
    numbers = asdict(Attack())
    numbers = {name: round(number * options.share) for name, number in numbers.items()}
    attack = Attack(**(numbers | {"seed": options.seed}))
    started = time.monotonic()
    sound = pipeline_text(*FORMATS[0])
    assert yaml.safe_load(sound)["name"] == NAME
    found: dict[str, Any] = {"files": files_refused(random.Random(attack.seed), sound, attack.files)}
    print(json.dumps(found), flush=True)
    for formats in FORMATS:
        with tempfile.TemporaryDirectory() as directory:
            print(json.dumps(attacked(attack, formats, Path(directory))), flush=True)
    print(f"attacked for {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
