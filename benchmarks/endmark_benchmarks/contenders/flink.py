"""Flink SQL run to its end: what it answered by when.

Flink runs in a Java process that we drive through Py4J, which comes with PySpark: no Java is ours to
compile, a runtime environment will do, and what goes wrong is an exception here.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError

from endmark.embedded.java import require_java
from endmark.errors import EndmarkError
from endmark_benchmarks.harness.contest import Digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# What Flink's own scripts say, as it reflects on classes of the JDK.
_OPENED = ["io", "lang", "lang.reflect", "net", "nio", "text", "time", "util"]
_OPENED += [f"util.concurrent{below}" for below in ("", ".atomic", ".locks")]
# Parquet's reader needs Hadoop's classes, which Spark ships, and a Hadoop that logs by an API of its own.
_FROM_SPARK = ("hadoop-client-api-*.jar", "hadoop-client-runtime-*.jar", "jcl-over-slf4j-*.jar")
_SETTINGS = {
    "execution.target": "local",
    "parallelism.default": "2",
    "taskmanager.numberOfTaskSlots": "2",
    "taskmanager.memory.network.max": "256m",
    "execution.checkpointing.interval": "10s",
    # Rows are handed from one operator to the next without a copy, which is safe in SQL.
    "pipeline.object-reuse": "true",
    # Counts are handed on a few times a second, instead of once for each answer.
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "200ms",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
}
_ANSWERS = """
CREATE TABLE answers (part BIGINT, answers BIGINT, high BIGINT, low BIGINT) WITH ('connector' = 'print')"""
_ANSWER = re.compile(r"\+[IU]\[(\d+), (\d+), (\d+), (\d+)\]")
_END = "all answers have been printed"


class Said(NamedTuple):
    """The sum of all answers of a part so far, at a time in seconds of the monotonic clock."""

    seconds: float
    part: int
    given: Digest


def parquet(name: str, columns: str, directory: Path) -> str:
    """Return the statement that makes a table of a directory's files.

    Args:
        name: the name of the table.
        columns: its columns in SQL.
        directory: the directory.
    """
    place = {"connector": "filesystem", "path": directory.absolute().as_uri(), "format": "parquet"}
    # Else times have the 12 bytes of Hive, which take longer to write.
    times = {"parquet.write.int64.timestamp": "true", "parquet.timestamp.time.unit": "micros"}
    return f"CREATE TABLE {name} ({columns}) WITH ({spelt(place | times | {'parquet.utc-timezone': 'true'})})"


def spelt(options: dict[str, str]) -> str:
    """Return the options of a table as SQL has them in its `WITH`."""
    return ", ".join(f"'{name}' = '{value}'" for name, value in options.items())


def run(jars: Sequence[str], settings: dict[str, str], tables: Iterable[str], answers: str) -> list[Said]:
    """Run a query in Flink; return everything that Flink said of its answers, in the order it was said.

    Args:
        jars: paths of Flink's jars.
        settings: Flink's settings, beside those that all contenders share.
        tables: statements that create the tables the query reads.
        answers: a query of part, count and both sums; it speaks of a part again when it has more answers.

    Raises:
        EndmarkError: Flink failed, or gave no answers.
    """
    found = execute(jars, settings, [*tables, _ANSWERS, f"INSERT INTO answers {answers}"])
    if not found:
        raise EndmarkError("Flink gave no answers; look into the query and its tables")
    return found


def execute(jars: Sequence[str], settings: dict[str, str], statements: Iterable[str]) -> list[Said]:
    """Execute one statement after the other in Flink; return what Flink said of answers, if it gave any.

    Args:
        jars: paths of Flink's jars.
        settings: Flink's settings, beside those that all contenders share.
        statements: the statements, in SQL.

    Raises:
        EndmarkError: Flink failed.
    """
    heard = _Heard()
    options = ["-XX:+UseParallelGC", "-Xmx6g"]
    options += [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED]
    port, token = launch_gateway(
        classpath=os.pathsep.join([*jars, *_sparks()]),
        javaopts=options,
        die_on_exit=True,
        redirect_stdout=heard,
        redirect_stderr=sys.stderr,
        java_path=str(require_java()),
        enable_auth=True,
    )
    parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
    gateway = JavaGateway(gateway_parameters=parameters)
    try:
        with tempfile.TemporaryDirectory(prefix="endmark-bench-") as folder:
            own = {"execution.checkpointing.dir": Path(folder, "checkpoints").as_uri(), "io.tmp.dirs": folder}
            _execute(gateway.jvm, _SETTINGS | own | settings, statements)
        gateway.jvm.System.out.println(_END)
        return list(heard.until_the_end())
    except Py4JError as error:
        raise EndmarkError(f"Flink failed: {error}") from error
    finally:
        gateway.shutdown()


def _execute(jvm: Any, settings: dict[str, str], statements: Iterable[str]) -> None:
    """Execute one statement after the other in a cluster inside the Java process."""
    table = jvm.org.apache.flink.table.api
    configuration = jvm.org.apache.flink.configuration.Configuration.fromMap(settings)
    streaming = (
        table.EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(configuration).build()
    )
    environment = table.TableEnvironment.create(streaming)
    for statement in statements:
        # A word of Python's, too.
        getattr(environment.executeSql(statement), "await")()


class _Heard:
    """The lines that the Java process prints, each with its time."""

    def __init__(self) -> None:
        self._lines: SimpleQueue[tuple[float, str]] = SimpleQueue()

    def write(self, line: str) -> None:
        self._lines.put((time.monotonic(), line))

    def until_the_end(self) -> Iterator[Said]:
        """The answers printed before the line that ends them."""
        while _END not in (heard := self._lines.get())[1]:
            if of := _ANSWER.search(heard[1]):
                part, *given = map(int, of.groups())
                yield Said(heard[0], part, Digest(*given))


def _sparks() -> list[str]:
    spark = importlib.util.find_spec("pyspark")
    home = Path(spark.origin or "").parent if spark else Path()
    return [str(jar) for pattern in _FROM_SPARK for jar in home.glob(f"jars/{pattern}")]


def total(said: Iterable[Said]) -> Digest:
    """Return the digest of the answers of all parts in the end."""
    return Digest.total({each.part: each.given for each in said}.values())
