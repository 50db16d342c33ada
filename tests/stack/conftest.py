"""The Spark session of tests that start Spark in their own process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from endmark.spark.session import start_session


@pytest.fixture(scope="module")
def spark(jars: list[Path], request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A session of two cores and two shuffle partitions, which a module has for itself."""
    name = request.module.__name__
    session = start_session(name, jars, master="local[2]", shuffle_partitions=2, driver_memory="1g")
    yield session
    session.stop()
