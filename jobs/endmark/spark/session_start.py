"""Starts the session of a job while the driver imports its modules and checks the job's surroundings."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from endmark.spark.processes.prefork import preforking
from endmark.spark.session import start_session, submitted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession


@contextmanager
def session_starting(
    name: str,
    jars: list[Path],
    *,
    master: str,
    buckets: int,
    driver_memory: str,
    store: Mapping[str, str] = MappingProxyType({}),
    store_jars: Sequence[Path] = (),
) -> Iterator[Callable[[], SparkSession]]:
    """Start a session while the body of a `with` runs; yield a function that waits for it.

    Java and the session take four seconds, of which Python's imports and checks take two. If the body raises,
    the error waits until the session has been stopped, so that no line of Java's follows it.

    The server of `preforking` starts once the body waits, since its imports would delay those of the body.

    Args:
        name: the name of the application.
        jars: the jars of the session.
        master: the Spark master.
        buckets: the number of partitions of a shuffle.
        driver_memory: the driver's heap, as Spark writes it.
        store: the settings for an object store that has the checkpoint.
        store_jars: the jars for that store.
    """

    def start() -> SparkSession:
        return start_session(
            name,
            jars,
            master=master,
            shuffle_partitions=buckets,
            driver_memory=driver_memory,
            delta=False,
            more=store,
            store_jars=store_jars,
        )

    # The thread is no daemon, so a program that ends meanwhile removes the files of Java's launch.
    with preforking() as begin, ThreadPoolExecutor(1, thread_name_prefix="session") as thread:
        session = thread.submit(start)

        def awaited() -> SparkSession:
            # The JVM of another master, or of spark-submit, starts Python in its own way.
            if master.startswith("local") and not submitted():
                begin()
            return session.result()

        try:
            yield awaited
        except BaseException:
            # A signal that stops the program ends its JVM, too. Py4J then raises that the connection is lost.
            with suppress(PySparkException, Py4JError, OSError):
                session.result().stop()
            raise
