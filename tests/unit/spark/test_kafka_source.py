"""How many tasks read a batch from Kafka."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest
from pyspark.sql import SparkSession

from endmark.spark.kafka_source import reading_tasks


@dataclass(frozen=True)
class Session:
    """A session with a master, the cores of its present executors, and a number of shuffle partitions."""

    master: str
    defaultParallelism: int  # noqa: N815  # Spark's name
    partitions: str

    @property
    def sparkContext(self) -> Session:  # noqa: N802
        return self

    @property
    def conf(self) -> dict[str, str]:
        return {"spark.sql.shuffle.partitions": self.partitions}


@pytest.mark.parametrize(
    ("master", "cores", "buckets", "tasks"),
    [("local[2]", 2, 8, 2), ("spark://host:7077", 2, 8, 8), ("k8s://host", 16, 8, 16)],
)
def test_a_cluster_may_get_a_core_for_each_bucket(master: str, cores: int, buckets: int, tasks: int) -> None:
    session = Session(master, cores, str(buckets))
    assert reading_tasks(cast(SparkSession, session)) == tasks
