"""The options of a job that are not in its pipeline file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from endmark.kafka.cluster import ClusterOrAddress
    from endmark.storage import Location


@dataclass(frozen=True)
class JobOptions:
    """The places that a job reads and writes, and the resources that it may take.

    Args:
        bootstrap: the Kafka cluster, or the addresses of its brokers.
        warehouse: the directory of the Delta tables.
        checkpoint: the directory of the checkpoint, which belongs to that warehouse.
        ops_url: the SQLAlchemy URL of the ops database.
        master: the Spark master. A program that spark-submit has started uses spark-submit's master and
            memory.
        buckets: the number of hash shares of state, one task each. A checkpoint can later have a multiple.
        available_now: stop when all records that Kafka holds at the start are read and none of them waits.
        driver_memory: the driver's heap, as Spark writes it.
        skip_dropped_records: go on without the records that Kafka dropped before a batch read them.
    """

    bootstrap: ClusterOrAddress
    warehouse: Location
    checkpoint: Location
    ops_url: str
    master: str = "local[2]"
    buckets: int = 2
    available_now: bool = False
    driver_memory: str = "2g"
    skip_dropped_records: bool = False
