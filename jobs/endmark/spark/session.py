"""The Spark session: settings that the engine relies on, each with its reason."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from endmark.embedded.ports import LOOPBACK
from endmark.private import UMASK, private_directory
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
SAFE_FORMAT = "2"
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
    STATE_FORMAT: SAFE_FORMAT,
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
    # Hadoop sets the rights of each file itself and does not ask for the mask of the process.
    "spark.hadoop.fs.permissions.umask-mode": f"{UMASK:03o}",
    # Sockets that are files carry rows and state to Python and back with a tenth less time a batch.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "endmark.spark.daemon",
    # Spark would close consumers of ended queries five minutes later, ten of them a minute: 1,045 descriptors
    # were open seven minutes after a hundred turns of `batch.*`. Here they are closed after one minute.
    "spark.kafka.consumer.cache.timeout": "1m",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "20s",
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
# For local masters: other users of the machine can reach loopback, too. Spark makes a secret for each session
# and keeps it in its JVM. Encryption costs nothing there, since a driver without executors sends nothing
# through its own sockets. Spark keeps files of shuffles and spills in directories that it makes private.
_LOCKED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.saslFallback": "false",
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.host": LOOPBACK,
}
_SOCKETS = "endmark-sockets-"
_LONGEST_PLACE = 60  # characters of a directory of sockets: Linux and Spark limit the whole path of a socket
# For sessions that write Delta tables by Spark, as a job's does not.
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # A few files a batch are written; more partitions than cores only add commits of empty tasks.
    "spark.databricks.delta.snapshotPartitions": "2",
}


def submitted() -> bool:
    """Return whether spark-submit has started this program, and so has said which master and jars to use."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


@contextmanager
def java_launched(jars: list[Path], *, master: str, driver_memory: str) -> Iterator[None]:
    """Start the JVM of a session beside the body of a `with`. `start_session` waits for it.

    The JVM takes two seconds, in which Python can import and check. If the body raises, that waits for all
    that Java says at its start, or else Java's lines would follow the cause. A program that spark-submit has
    started has a JVM already.

    Args:
        jars: the jars of the session.
        master: the Spark master.
        driver_memory: the driver's heap, as Spark writes it.
    """
    if submitted():
        yield
        return
    conf = SparkConf().setAll(list((SETTINGS | _own(jars, master, driver_memory)).items()))
    # Of no daemon, so that a program that ends meanwhile leaves no file of the launch behind.
    java = threading.Thread(target=_launch, args=[conf], name="java")
    java.start()
    try:
        yield
    except BaseException:
        java.join()
        raise


def _launch(conf: SparkConf) -> None:
    # What goes wrong here goes wrong again in `start_session`, whose caller is told. A signal that stops the
    # program ends its JVM, too, and then Py4J says that the connection is lost.
    with suppress(PySparkException, Py4JError, OSError):
        SparkContext._ensure_initialized(conf=conf)


def start_session(
    name: str,
    jars: list[Path],
    *,
    master: str,
    shuffle_partitions: int,
    driver_memory: str,
    delta: bool = True,
) -> SparkSession:
    """Start a Spark session.

    With a local master, Spark listens on loopback and obeys no other user of the machine. If spark-submit has
    started the program, its own master, jars and memory count.

    Args:
        name: the name of the application.
        jars: local jars.
        master: the Spark master.
        shuffle_partitions: the number of partitions of a shuffle.
        driver_memory: the driver's heap, as Spark writes it.
        delta: Spark itself is to read or write Delta tables, whose rules every plan then passes.
    """
    builder = SparkSession.builder.appName(name)
    settings = SETTINGS | {"spark.sql.shuffle.partitions": str(shuffle_partitions)}
    if delta:
        settings |= _DELTA
    if not submitted():
        settings |= _own(jars, master, driver_memory)
    elif _submitted_to().startswith("local"):
        settings |= _locked()
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    _require_token_of_callbacks(session.sparkContext._gateway)
    session.sparkContext.setLogLevel("ERROR")
    return session


def _own(jars: list[Path], master: str, driver_memory: str) -> dict[str, str]:
    """Return the settings that spark-submit would else have been given."""
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
        **_locked(),
    }


def _submitted_to() -> str:
    """The master that spark-submit was told."""
    SparkContext._ensure_initialized()
    return SparkConf().get("spark.master") or ""


def _locked() -> dict[str, str]:
    """Settings by which no other user of this machine can reach a session with a local master."""
    return _LOCKED | {"spark.python.unix.domain.socket.dir": str(_sockets())}


@cache
def _sockets() -> Path:
    """The directory of the sockets between Java and Python; whoever can open one is asked for no secret."""
    usual = tempfile.gettempdir()
    fits = len(f"{usual}/{_SOCKETS}12345678") <= _LONGEST_PLACE
    return private_directory(_SOCKETS, Path(usual if fits else "/tmp"))  # noqa: S108  # under a new name


def _require_token_of_callbacks(gateway: Any) -> None:
    """Let nobody but our own JVM call Python back, as it does for each batch.

    Java asks Python for the gateway's token, but Python asks Java for none, and Java forgets its copy of the
    token when it is told Python's port. So both are told the token here. Should Java not know it, every
    callback fails.
    """
    expects = gateway.callback_server_parameters
    if expects.auth_token is not None:
        return
    expects.auth_token = gateway.gateway_parameters.auth_token
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    client = JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient()
    token = gateway.jvm.java.lang.Class.forName("py4j.CallbackClient").getDeclaredField("authToken")
    token.setAccessible(True)
    token.set(client, expects.auth_token)
