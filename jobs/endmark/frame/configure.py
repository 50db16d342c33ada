"""The settings of frames in a Spark session of the user's own."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from pyspark import SparkConf, SparkContext

from endmark.embedded.jars import spark_jars
from endmark.embedded.java import require_java
from endmark.errors import ConfigError
from endmark.spark.classic import require_classic_builder
from endmark.spark.session import DELTA, PRIVATE, STATEFUL, submitted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession


def configure(
    builder: SparkSession.Builder, *, shuffle_partitions: int = 2, jars: Sequence[str] = ()
) -> SparkSession.Builder:
    """Set what frames need from a session: state in RocksDB, Delta, and the jars of Kafka and Delta.

    The first call on a machine fetches the jars, which are pinned by their checksums. Files that Spark writes
    in the session are for their own user alone, since `spark.hadoop.fs.permissions.umask-mode` is 077; to
    share files, set it again after this call. The builder's other settings stay as they are.

    Args:
        builder: the builder of the session, as `SparkSession.builder`.
        shuffle_partitions: the number of Spark's shuffle partitions, which is also the number of parts of
            each state. It stays as long as a checkpoint is used.
        jars: further jars of the session, since `spark.jars` is one list.

    Raises:
        ConfigError: the session would be one of Spark Connect, or a session without these jars is already
            running, so settings and jars would come too late.
        MissingPartError: there is no Java 17, or a jar cannot be fetched, or is not the pinned one.
    """
    require_classic_builder(builder)
    require_java()
    found = spark_jars(lambda line: print(line, file=sys.stderr))
    # Workers need the packages of this interpreter.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = STATEFUL | DELTA | PRIVATE
    settings |= {"spark.sql.shuffle.partitions": str(shuffle_partitions)}
    every = [*map(str, found), *jars]
    _require_own_session(every)
    if submitted() or SparkContext._gateway is not None:
        every += _added_to_running_java(every)
    settings |= {"spark.jars": ",".join(every)}
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def _require_own_session(jars: Sequence[str]) -> None:
    """Refuse a running session, unless `configure` has set it up, as in a cell that runs again."""
    running = SparkContext._active_spark_context
    if running is None:
        return
    started_with = (running.getConf().get("spark.jars") or "").split(",")
    if started_with[: len(jars)] != [*jars]:
        raise ConfigError(
            "a Spark session is already running, and keeps its settings and jars; call configure before "
            "getOrCreate, or stop that session first"
        )


def _added_to_running_java(jars: Sequence[str]) -> list[str]:
    """Give jars to a JVM that was started without them, and return those that spark-submit has named.

    Java outlives a session that was stopped, and spark-submit starts it before the program. `spark.jars`
    then gives the jars to tasks, but the driver finds no class of Delta in them.
    """
    SparkContext._ensure_initialized()
    java: Any = SparkContext._jvm
    loader = java.Thread.currentThread().getContextClassLoader()
    for jar in jars:
        uri = java.org.apache.spark.util.Utils.resolveURI(jar)
        if uri.getScheme() == "file":
            loader.addURL(uri.toURL())
    named = SparkConf().get("spark.jars") if submitted() else None
    return [each for each in (named or "").split(",") if each]
