"""A session starts soon, and its shortcuts do not change it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyspark
import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from endmark.spark.plan import bucket_labels
from endmark.spark.processes.class_exercise import through
from endmark.spark.session_start import session_starting

# Prints the heap in MB, and how many JVMs this program has started.
EARLY = """
import json, os, subprocess, sys
from pathlib import Path
from endmark.spark.session_start import session_starting

jars = [Path(jar) for jar in sys.argv[1:]]
with session_starting("early", jars, master="local[2]", buckets=2, driver_memory="700m") as session:
    java = session().sparkContext._jvm.java.lang
java.Class.forName("org.apache.spark.sql.kafka010.KafkaSourceProvider")
count = subprocess.run(["pgrep", "--count", "--parent", str(os.getpid()), "java"], capture_output=True)
print(json.dumps([java.Runtime.getRuntime().maxMemory() / 2**20, int(count.stdout)]))
"""


def test_an_early_session_has_one_java(jars: list[Path]) -> None:
    """It has the heap and the jars that the session asks for."""
    command = [sys.executable, "-c", EARLY, *map(str, jars)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    heap, javas = json.loads(ended.stdout.splitlines()[-1])

    assert 600 < heap <= 700
    assert javas == 1


def test_a_session_needs_no_address_of_the_machines_name(jars: list[Path], tmp_path: Path) -> None:
    """A container may have no entry for its own name. Spark then ended with an `UnknownHostException`."""
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    environment = os.environ | {"JDK_JAVA_OPTIONS": f"-Djdk.net.hosts.file={hosts}"}
    command = [sys.executable, "-c", EARLY, *map(str, jars)]
    subprocess.run(command, env=environment, capture_output=True, timeout=300, check=True)


def test_a_jvm_that_is_lost_at_its_start_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal to the whole group ends it in a job's first second. Py4J says then that a connection is lost,
    and no thread of the job puts a traceback beside the job's last line."""
    uncaught = Mock()
    lost = Mock(side_effect=Py4JNetworkError("Error while sending or receiving"))
    monkeypatch.setattr(threading, "excepthook", uncaught)
    monkeypatch.setattr(SparkContext, "_ensure_initialized", lost)

    early = session_starting("lost", [], master="local[1]", buckets=1, driver_memory="700m")
    with suppress(KeyboardInterrupt), early:
        raise KeyboardInterrupt

    assert (lost.call_count, uncaught.call_count) == (1, 0)


# Writes a file as checkpoints are written.
WRITES = """
import sys
from pathlib import Path
from endmark.spark.session import start_session

jars = [Path(jar) for jar in sys.argv[2:]]
spark = start_session("writes", jars, master="local[1]", shuffle_partitions=1, driver_memory="700m")
file = spark._jvm.org.apache.hadoop.fs.Path(sys.argv[1])
stream = file.getFileSystem(spark._jsc.hadoopConfiguration()).create(file)
stream.write(1)
stream.close()
"""


def test_a_file_is_written_with_its_checksum_and_without_a_process(jars: list[Path], tmp_path: Path) -> None:
    """Spark would find this `chmod` before the system's, and this one leaves a trace."""
    trace = tmp_path / "trace"
    (tmp_path / "chmod").write_text(f"#!/bin/sh\ntouch {trace}\n")
    (tmp_path / "chmod").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    command = [sys.executable, "-c", WRITES, str(tmp_path / "written"), *map(str, jars)]
    subprocess.run(command, env=os.environ | {"PATH": path}, timeout=300, check=True)

    assert (tmp_path / "written").read_bytes() == b"\1"
    assert (tmp_path / ".written.crc").exists()
    assert (tmp_path / "written").stat().st_mode & 0o777 == 0o600
    assert not trace.exists()


def test_a_file_has_a_name_in_any_script_in_the_locale_c(jars: list[Path], tmp_path: Path) -> None:
    """Java took names for ASCII there, so a job failed whose checkpoint is below such a directory."""
    file = tmp_path / "für 日本"
    command = [sys.executable, "-c", WRITES, str(file), *map(str, jars)]
    subprocess.run(command, env=os.environ | {"LC_ALL": "C"}, timeout=300, check=True)

    assert file.read_bytes() == b"\1"


@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_each_bucket_has_a_partition_of_its_own(spark: SparkSession, count: int) -> None:
    """Spark's shuffle agrees with the choice of labels."""
    labels = bucket_labels(spark, count).labels
    rows = spark.createDataFrame([(label,) for label in labels], "bucket int").repartition(count, "bucket")
    found = {
        row.bucket: row.partition for row in rows.withColumn("partition", F.spark_partition_id()).collect()
    }

    assert [found[label] for label in labels] == list(range(count))


def test_workers_import_the_pyspark_that_is_installed(spark: SparkSession) -> None:
    """Not its archive, which they would compile anew at each start."""

    def places(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.record_batch({"place": [pyspark.__file__, pyspark.sql.__file__]})

    found = spark.range(1).mapInArrow(places, "place string").collect()

    assert {row.place for row in found} == {pyspark.__file__, pyspark.sql.__file__}


def test_all_stages_share_one_daemon(spark: SparkSession) -> None:
    """Spark starts a daemon of Python workers for each environment that an operator asks for."""
    java: Any = spark.sparkContext._jvm
    pid = java.java.lang.ProcessHandle.current().pid()
    spark.streams  # noqa: B018  # this starts the coordinator that tasks ask where state is
    through(spark.range(2).selectExpr("cast(id as int) bucket", "cast('' as binary) blob")).collect()
    daemons = ["pgrep", "--count", "--parent", str(pid), "--full", "endmark.spark.processes.daemon"]

    assert int(subprocess.run(daemons, capture_output=True, check=False).stdout) == 1


class PathKept(StatefulProcessor):
    """Writes down where modules are looked for by each Python that it comes to."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def init(self, handle: StatefulProcessorHandle) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps(sys.path) + "\n")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        yield from rows

    def close(self) -> None:
        pass


def test_plans_wait_for_no_python_that_compiles_an_archive(spark: SparkSession, tmp_path: Path) -> None:
    """Spark starts one for each operator with state, of which it asks what the state is."""
    file = tmp_path / "paths"
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    kept = (
        rows.select("value")
        .groupBy("value")
        .transformWithState(PathKept(file), "value long", "append", "none")
    )
    sink = kept.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = sink.start()
    try:
        deadline = time.monotonic() + 180
        while not query.lastProgress and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        query.stop()

    paths = file.read_text().splitlines()
    assert paths
    assert not [path for path in paths if "pyspark.zip" in path]
