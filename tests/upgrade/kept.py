"""Jobs of an earlier version of endmark, kept in an archive: their files, and the records of their topics.

A job is kept after it has read the first half of its records. A later version must go on with its files, and
read the second half.
"""

from __future__ import annotations

import json
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa
from kafka import KafkaProducer

from damage.campaign import SELLERS, benches
from damage.home import PIPELINES, Home, World
from endmark.embedded.broker import Broker
from endmark.embedded.mariadb import MariaDb
from endmark.spark.processes.class_archive import local_jars
from endmark.verify.read.consume import Log
from endmark_feed.producer import create_topics
from endmark_feed.relation import fill_table, sellers_table

VERSIONS = Path(__file__).parent / "versions"
# The parts of an archive.
_JOBS, _FILES = "jobs", "pipelines"
_RECORDS, _RELATION, _TOPICS = "records.parquet", "sellers.json", "topics.json"


def keep(archive: Path) -> None:
    """Run a job of this version on each pipeline, and keep them.

    Args:
        archive: the file that is written.
    """
    with tempfile.TemporaryDirectory(prefix="endmark-kept-") as scratch:
        directory, kept = Path(scratch) / "work", Path(scratch) / archive.name.removesuffix(".tar.gz")
        directory.mkdir()
        kept.mkdir()
        with benches(directory, range(1)) as found:
            _, bench = next(found)
            shutil.copytree(PIPELINES, kept / _FILES)
            for file in PIPELINES.glob("*.yaml"):
                bench.base(file.stem).copied(kept / _JOBS / file.stem)
            world = bench.world
            controls = [world.pipeline(file.stem).control_topic for file in PIPELINES.glob("*.yaml")]
            _keep_records(world.bootstrap, [*world.topics.values(), *controls], kept / _RECORDS)
            (kept / _TOPICS).write_text(json.dumps(world.topics))
            with bench.relation.connect() as connection:
                rows = [dict(row) for row in connection.execute(sa.select(sellers_table)).mappings()]
            (kept / _RELATION).write_text(json.dumps(rows))
        with tarfile.open(archive, "w:gz") as written:
            written.add(kept, arcname=".")


def _keep_records(bootstrap: str, topics: Sequence[str], file: Path) -> None:
    with Log(bootstrap, topics, whole=topics) as log:
        pq.write_table(pa.Table.from_batches(list(log.batches())), file)


@contextmanager
def restored(archive: Path, directory: Path) -> Iterator[list[Home]]:
    """Start the servers that kept jobs had, with the same records at the same offsets; yield the jobs' files.

    Args:
        archive: the file of `keep`.
        directory: an empty directory.
    """
    kept = directory / "kept"
    with tarfile.open(archive) as found:
        found.extractall(kept, filter="data")
    for ids in (kept / _JOBS).rglob("endmark/topics.json"):
        ids.unlink()  # the new topics are copies
    with ExitStack() as parts:
        broker = parts.enter_context(Broker(directory / "broker", say=print))
        database = parts.enter_context(MariaDb(directory / "mariadb"))
        rows = json.loads((kept / _RELATION).read_text())
        assert fill_table(database.url, sellers_table, SELLERS, [rows]) == SELLERS
        _publish(broker.bootstrap, pq.read_table(kept / _RECORDS))
        environment = {"ENDMARK_RELATION_URL": database.url}
        topics = json.loads((kept / _TOPICS).read_text())
        world = World(broker.bootstrap, environment, topics, local_jars(print), kept / _FILES)
        yield [Home(job, world, job.name) for job in sorted((kept / _JOBS).iterdir())]


def _publish(bootstrap: str, records: pa.Table) -> None:
    """Publish records, each at its offset. `Delivery` takes neither their headers nor their timestamps."""
    rows = sorted(records.to_pylist(), key=lambda row: (row["topic"], row["partition"], row["offset"]))
    partitions = {row["topic"]: row["partition"] + 1 for row in rows}
    create_topics(bootstrap, partitions)
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    try:
        for row in rows:
            headers = [(header["name"], header["value"]) for header in row["headers"] or ()]
            at = producer.send(
                row["topic"],
                row["value"],
                row["key"],
                partition=row["partition"],
                headers=headers,
                timestamp_ms=row["timestamp"],
            ).get(60)
            assert at.offset == row["offset"], "the records of a partition are not those from its offset 0 on"
    finally:
        producer.close()
