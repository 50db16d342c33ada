"""An archive of the classes that Spark loads, which Java maps instead of reading and linking 20,000 of them.

It fits one Java, one set of jars and their places, by which it is named. Java starts without one, only later.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark

from endmark.errors import MissingPartError
from endmark.parts.jars import cache_home
from endmark.parts.java import find_java, require_java

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame


def archive_of(jars: Sequence[Path]) -> Path:
    """Where the archive is, if there is one, for a session with these jars."""
    files = [find_java().resolve(), Path(pyspark.__file__), *jars]
    found = "\n".join(f"{file} {file.stat().st_mtime_ns}" for file in files)
    return cache_home() / "classes" / f"{hashlib.sha256(found.encode()).hexdigest()[:16]}.jsa"


def record(jars: Sequence[Path]) -> Path:
    """Record the archive, anew if there is one, by a session that does what jobs do.

    Raises:
        MissingPartError: there is no Java, or it did not write the archive.
    """
    require_java()
    archive = archive_of(jars)
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.unlink(missing_ok=True)  # else the session would use it, and Java records nothing then
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        partial = Path(scratch, "classes.jsa")
        options = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} -XX:ArchiveClassesAtExit={partial}"
        ended = subprocess.run(
            [sys.executable, "-m", "endmark.spark.class_archive", *map(str, jars)],
            env=os.environ | {"SPARK_SUBMIT_OPTS": options},
            capture_output=True,
            text=True,
            check=False,
        )
        if not partial.exists():
            raise MissingPartError(f"Java has not written {archive}: {ended.stderr.strip()[-500:]}")
        partial.rename(archive)
    return archive


def _collect(batch: DataFrame, _: int) -> None:
    batch.collect()


def _exercise(jars: list[Path]) -> None:
    """What a job does until its first batch is written, on a file instead of topics."""
    from pyspark import SparkContext

    from endmark.spark.plan import Source, kafka_records
    from endmark.spark.session import start_session
    from endmark.spark.warm_up import through

    spark = start_session(
        "classes", jars, master="local[2]", shuffle_partitions=2, driver_memory="1g", delta=False
    )
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "records").mkdir()
        Path(scratch, "records", "one.txt").write_text("0\n1\n")
        lines = spark.readStream.text(f"{scratch}/records")
        rows = lines.selectExpr("cast(value as int) bucket", "cast(value as binary) blob")
        writer = through(rows).writeStream.option("checkpointLocation", f"{scratch}/checkpoint")
        query = writer.trigger(availableNow=True).foreachBatch(_collect).start()
        query.awaitTermination()
        nowhere = kafka_records(spark, Source("127.0.0.1:1", {"none": 1}, 1))
        # No broker is there, so it fails, with all of Kafka's client loaded but what reads answers.
        with suppress(Exception):
            writer = nowhere.writeStream.option("checkpointLocation", f"{scratch}/nowhere")
            writer.format("noop").start().awaitTermination()
    spark.stop()
    gateway: Any = SparkContext._gateway
    gateway.proc.stdin.close()
    gateway.proc.wait()  # for it to write the archive


if __name__ == "__main__":
    _exercise([Path(jar) for jar in sys.argv[1:]])
