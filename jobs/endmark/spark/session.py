"""The Spark session and the settings that the engine relies on, each with its reason."""

from __future__ import annotations

import os
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaObject
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from endmark.embedded.ports import LOOPBACK
from endmark.private import UMASK, private_directory
from endmark.spark.java_signals import hand_to_python
from endmark.spark.processes.class_archive import archive_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_STATE = "spark.sql.streaming.stateStore"
_JAVA = "spark.driver.defaultJavaOptions"
_WORKERS = Path(__file__).parent / "processes/python.sh"
# A repeated batch makes segments of other names. In the first format, a snapshot of an attempt that was never
# committed takes the place of the repetition's state. A later start then misses segments, as in
# tests/stack/test_repeated_batch.py. In the second format, the files of each attempt have their own names,
# and the commit log says which of them count.
STATE_FORMAT = f"{_STATE}.checkpointFormatVersion"
SAFE_FORMAT = "2"
# Java has a quick compiler, and one that optimizes what runs for minutes. Rows are the work of Python and of
# libraries in C++. Without the second compiler, the auction pipeline gave 13 % more records/s in its first
# twenty seconds, and as many from then on. After 500 batches of 1,000 rows, a batch took 0.25 s instead of
# 0.22 to 0.24 s.
_QUICKLY_COMPILED = "-XX:TieredStopAtLevel=1"
# A start makes two garbage collections instead of eight, in 0.2 s of CPU instead of 0.6 s. Two of the eight
# were of the whole heap, since classes had outgrown Java's first limit. The share is of the machine's memory,
# and never exceeds the heap's maximum.
_COLLECTED_LATER = "-XX:MetaspaceSize=256m -XX:InitialRAMPercentage=5"
# Java maps the archive at the address where it was recorded. Moving it would take 0.2 s and as much memory as
# the archive is long. Java does not log that an archive does not fit.
_SHARED = (
    "-XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0 -Xlog:cds=off,cds+dynamic=off "
    "-XX:SharedArchiveFile="
)
# The settings that an operator needs in any session.
STATEFUL = {
    STATE_FORMAT: SAFE_FORMAT,
    # transformWithState needs RocksDB. Changelogs upload the changes of a batch instead of whole snapshots.
    f"{_STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    # Changelogs hold whole segments. The default of 100 batches would be gigabytes.
    "spark.sql.streaming.minBatchesToRetain": "10",
    # Arrow batches are few and large, since each of them costs a parse and a sort.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # This is no limit in practice. With a limit, Spark adds up the bytes of all columns for every row, which
    # took 28 % of its tasks' time.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}
# Hadoop sets the mode of each file itself and ignores the umask of the process.
PRIVATE = {"spark.hadoop.fs.permissions.umask-mode": f"{UMASK:03o}"}
SETTINGS = STATEFUL | {
    **PRIVATE,
    # Checkpoints are in mounted file systems. With Hadoop's other interface, the default, Spark starts a
    # process for every file that might be a link: twelve a batch, a fifth of the time of a small batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # Hadoop keeps a checksum of every file already. This would add a second one, in a file of its own.
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # With Unix sockets for rows and state between Java and Python, a batch takes a tenth less time.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "endmark.spark.processes.daemon",
    # Spark simplifies tracebacks of `mapInArrow`, but not of stateful operators, and runs a daemon of Python
    # workers for each of the two. One daemon for both saves a job's start a second of a core, and 140 MB.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    # By default, a stop may wait for ever, which would block a deployment.
    "spark.sql.streaming.stopTimeout": "60s",
    "spark.sql.session.timeZone": "UTC",
    # The plan is fixed and writes have no shuffle, so nothing can be planned better at run time.
    "spark.sql.adaptive.enabled": "false",
    # Blobs of megabytes live for one batch. The parallel collector has throughput for them; G1 aims at
    # pauses.
    _JAVA: f"-XX:+UseParallelGC {_COLLECTED_LATER} {_QUICKLY_COMPILED}",
    "spark.executor.defaultJavaOptions": "-XX:+UseParallelGC",
    # There is no web interface, no kill link and no REST submission, since nothing needs them.
    "spark.ui.enabled": "false",
    "spark.ui.killEnabled": "false",
    "spark.master.rest.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Spark hides options of these names in plans and logs: a login's password, and the key of a certificate.
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas|keystore|truststore",
    "spark.sql.redaction.options.regex": "(?i)url|secret|password|jaas|keystore|truststore",
}
# These settings are for local masters, since other users of the machine can reach loopback, too. Spark makes
# a secret for each session and keeps it in its JVM. Encryption costs nothing here, since a driver without
# executors sends nothing through its own sockets. Spark keeps shuffle and spill files in private directories.
_LOCKED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.saslFallback": "false",
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.host": LOOPBACK,
}
_SOCKETS = "endmark-sockets-"
_LONGEST_PATH = 60  # characters of the sockets' directory; Linux and Spark limit the whole path of a socket
# Sessions that read or write Delta tables with Spark need these settings. The session of a job does not.
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # A batch writes a few files, so more partitions than cores would only add empty tasks.
    "spark.databricks.delta.snapshotPartitions": "2",
}


def submitted() -> bool:
    """Return whether spark-submit has started this program. Then it also sets the master and the jars."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def start_session(
    name: str,
    jars: list[Path],
    *,
    master: str,
    shuffle_partitions: int,
    driver_memory: str,
    delta: bool = True,
    more: Mapping[str, str] = MappingProxyType({}),
    store_jars: Sequence[Path] = (),
) -> SparkSession:
    """Start a Spark session.

    With a local master, Spark listens only on loopback and obeys no other user of the machine. A program that
    spark-submit has started uses spark-submit's master, jars and memory.

    Args:
        name: the name of the application.
        jars: local jars.
        master: the Spark master.
        shuffle_partitions: the number of partitions of a shuffle.
        driver_memory: the driver's heap, as Spark writes it.
        delta: whether Spark reads or writes Delta tables. Each plan then passes Delta's rules, too.
        more: further settings, such as those for an object store that has the checkpoint.
        store_jars: the jars for that store.
    """
    if submitted():
        SparkContext._ensure_initialized()
        _require_token_of_callbacks(SparkContext._gateway)
        hand_to_python(SparkContext._gateway)
    builder = SparkSession.builder.appName(name)
    settings = SETTINGS | dict(more) | {"spark.sql.shuffle.partitions": str(shuffle_partitions)}
    if delta:
        settings |= DELTA
    if not submitted():
        settings |= _own(jars, store_jars, master, driver_memory)
    elif _submitted_to().startswith("local"):
        settings |= _locked()
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    _require_token_of_callbacks(session.sparkContext._gateway)
    session.sparkContext.setLogLevel("ERROR")
    return session


def _own(jars: list[Path], store_jars: Sequence[Path], master: str, driver_memory: str) -> dict[str, str]:
    """Return the settings of a session that spark-submit has not started."""
    every = [*jars, *store_jars]  # in this order, since an archive of classes fits its first jars
    # Workers must run this interpreter, since others lack the packages of its environment.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if os.environ.get("LC_ALL") in {"C", "POSIX"}:
        # Python takes the names of files for UTF-8 then, too, and Java would take them for ASCII.
        os.environ["LC_ALL"] = "C.UTF-8"
    settings = {"spark.master": master, "spark.driver.memory": driver_memory}
    if not master.startswith("local"):
        return settings | {"spark.jars": ",".join(map(str, every))}
    if os.access(_WORKERS, os.X_OK):
        os.environ["ENDMARK_WORKER_PYTHON"] = sys.executable
        os.environ["ENDMARK_WORKER_PATH"] = os.environ.get("PYTHONPATH", "")
        os.environ["PYSPARK_PYTHON"] = str(_WORKERS)
    # Without it, Spark asks for the address of the machine's name. In a container, that may have none.
    os.environ["SPARK_LOCAL_IP"] = LOOPBACK
    if archive := archive_of(jars):
        settings[_JAVA] = f"{SETTINGS[_JAVA]} {_SHARED}{archive}"
    return settings | {
        # Hadoop's own class starts the process `chmod` three times for each file of a checkpoint, twelve
        # times a batch. This subclass does the same by Java's own calls, and keeps the checksums.
        "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
        # With `spark.jars`, the driver would copy jars that it can read where they are.
        "spark.driver.extraClassPath": ":".join(map(str, every)),
        **_locked(),
    }


def _submitted_to() -> str:
    """Return the master that spark-submit was started with."""
    SparkContext._ensure_initialized()
    return SparkConf().get("spark.master") or ""


def _locked() -> dict[str, str]:
    """Return settings that keep other users of this machine out of a session with a local master."""
    return _LOCKED | {"spark.python.unix.domain.socket.dir": str(_sockets())}


@cache
def _sockets() -> Path:
    """Return a private directory for the sockets between Java and Python, which ask for no secret."""
    usual = tempfile.gettempdir()
    fits = len(f"{usual}/{_SOCKETS}12345678") <= _LONGEST_PATH
    return private_directory(_SOCKETS, Path(usual if fits else "/tmp"))  # noqa: S108  # under a new name


def _require_token_of_callbacks(gateway: Any) -> None:
    """Make Python's callback server require a token, so that only our own JVM can call Python back.

    Python must send the gateway's token to Java. But PySpark's callback server requires no token, and Java
    drops its copy of the token when it receives the server's port. So this sets the token on both sides. If
    Java did not have it, every callback would fail.
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
