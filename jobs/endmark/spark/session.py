"""The Spark session: settings that the engine relies on, each with its reason."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from endmark.spark.class_archive import archive_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_STATE = "spark.sql.streaming.stateStore"
_JAVA = "spark.driver.defaultJavaOptions"
_WORKERS = Path(__file__).with_name("python.sh")
# A batch that is repeated makes segments of other names. In the first format a snapshot of an attempt that
# was never committed stands for the state of its repetition, so that a later start misses segments, as in
# tests/stack/test_repeated_batch.py. In the second, the files of each attempt have names of their own, and
# the commit log says which count.
STATE_FORMAT = f"{_STATE}.checkpointFormatVersion"
FIRST_FORMAT, SAFE_FORMAT = "1", "2"
# Java's compilers took 12 of the 33 s of CPU from a job's start to its first output, most of them for what
# planning does once. They wait for ten times as many calls as usual: what runs for each row has them within a
# batch.
_COMPILED_LATER = (
    "-XX:Tier3InvocationThreshold=2000 -XX:Tier3MinInvocationThreshold=1000 "
    "-XX:Tier3CompileThreshold=5000 -XX:Tier3BackEdgeThreshold=120000 "
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
# Eight collections of a start, two of them of all the heap since classes had outgrown what Java thought of,
# become two: from 0.6 s of CPU to 0.2 s. Of the machine's memory, but never more than the heap may have.
_COLLECTED_LATER = "-XX:MetaspaceSize=256m -XX:InitialRAMPercentage=5"
# An archive where it was recorded, since Java would else move it, for 0.2 s and as much memory as it is long;
# and without a word when it does not fit.
_SHARED = (
    "-XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0 -Xlog:cds=off,cds+dynamic=off "
    "-XX:SharedArchiveFile="
)
SETTINGS = {
    # transformWithState needs RocksDB; changelogs upload what a batch changed instead of whole snapshots.
    f"{_STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    # Checkpoints are in file systems that are mounted. By Hadoop's other interface, the default, Spark starts
    # a process for every link that might be there, twelve a batch, a fifth of the time of a small one.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # Hadoop keeps a checksum of every file already; this would be a second, in a file with a checksum too.
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # Changelogs hold whole segments: 100 batches of them, the default, would be gigabytes.
    "spark.sql.streaming.minBatchesToRetain": "10",
    # Few, large Arrow batches: every one costs a parse and a sort.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # No bound in bytes: Spark adds up all columns for every row to keep one, 28 % of its tasks' time.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    # Sockets that are files carry rows and state to Python and back with a tenth less time a batch.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "endmark.spark.daemon",
    # A stop that never returns would hang a deployment; the default is to wait for ever.
    "spark.sql.streaming.stopTimeout": "60s",
    "spark.sql.session.timeZone": "UTC",
    # The plan is fixed and writes have no shuffle: there is nothing to plan anew at run time.
    "spark.sql.adaptive.enabled": "false",
    # Blobs of megabytes live for one batch, which the parallel collector takes for throughput, G1 for pauses.
    _JAVA: f"-XX:+UseParallelGC {_COLLECTED_LATER} {_COMPILED_LATER}",
    "spark.executor.defaultJavaOptions": "-XX:+UseParallelGC",
    # No web interface, no kill links, no REST submission: nobody asked for a door.
    "spark.ui.enabled": "false",
    "spark.ui.killEnabled": "false",
    "spark.master.rest.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# For sessions that write Delta tables by Spark, as a job's does not.
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # A few files a batch are written; more partitions than cores only add commits of empty tasks.
    "spark.databricks.delta.snapshotPartitions": "2",
}


def submitted() -> bool:
    """Whether spark-submit has started this program, and has said which master, jars and Python to use."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


@contextmanager
def java_launched(jars: list[Path], *, master: str, driver_memory: str) -> Iterator[None]:
    """Start the JVM for a session of these arguments beside the body, which `start_session` waits for.

    It takes two seconds, in which Python can import and check. What goes wrong in the body is raised when
    Java has said all that it says at its start, or the cause would be followed by that. A program that
    spark-submit has started has a JVM.
    """
    if submitted():
        yield
        return
    conf = SparkConf().setAll(list((SETTINGS | _own(jars, master, driver_memory)).items()))
    # Of no daemon, so that a program that ends meanwhile leaves no file of the launch behind.
    java = threading.Thread(target=SparkContext._ensure_initialized, kwargs={"conf": conf}, name="java")
    java.start()
    try:
        yield
    except BaseException:
        java.join()
        raise


def start_session(
    name: str,
    jars: list[Path],
    *,
    master: str,
    shuffle_partitions: int,
    driver_memory: str,
    state_format: str = SAFE_FORMAT,
    delta: bool = True,
) -> SparkSession:
    """Start Spark on `master` with local `jars`; loopback only when the master is local.

    Of a program that spark-submit has started, master, jars and memory are as it was told. `state_format` is
    that of the checkpoint: Spark cannot go on with one in another. `delta` is whether Spark itself is to read
    or write Delta tables, whose rules every plan then passes.
    """
    builder = SparkSession.builder.appName(name)
    settings = SETTINGS | {
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        STATE_FORMAT: state_format,
    }
    if delta:
        settings |= _DELTA
    if not submitted():
        settings |= _own(jars, master, driver_memory)
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _own(jars: list[Path], master: str, driver_memory: str) -> dict[str, str]:
    """What spark-submit would else have been told."""
    # Workers must run this very interpreter, or they lack the packages of its environment.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.master": master, "spark.driver.memory": driver_memory}
    if not master.startswith("local"):
        return settings | {"spark.jars": ",".join(map(str, jars))}
    if os.access(_WORKERS, os.X_OK):
        os.environ["ENDMARK_WORKER_PYTHON"] = sys.executable
        os.environ["ENDMARK_WORKER_PATH"] = os.environ.get("PYTHONPATH", "")
        os.environ["PYSPARK_PYTHON"] = str(_WORKERS)
    if archive := archive_of(jars):
        settings[_JAVA] = f"{SETTINGS[_JAVA]} {_SHARED}{archive}"
    return settings | {
        # Hadoop's own starts a process, `chmod`, three times for each file of a checkpoint, twelve times a
        # batch. This is that one, checksums and all, but asks Java for it.
        "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
        # By `spark.jars`, a driver would copy to itself what it can read where it is.
        "spark.driver.extraClassPath": ":".join(map(str, jars)),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
