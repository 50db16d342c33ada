"""The options of a job beside its pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class JobOptions:
    """Where a job reads and writes, and what it may take.

    Args:
        bootstrap: the broker's host:port.
        warehouse: directory of the Delta tables.
        checkpoint: directory of the checkpoint; belongs to that warehouse.
        ops_url: SQLAlchemy URL of the ops database.
        master: Spark master; spark-submit's, if it has started the program. So is the driver's memory.
        buckets: hash shares of state, one task each; fixed for the life of a checkpoint.
        available_now: stop after what Kafka holds at the start, and what waits of it.
        driver_memory: the driver's heap, as Spark writes it.
    """

    bootstrap: str
    warehouse: Path
    checkpoint: Path
    ops_url: str
    master: str = "local[2]"
    buckets: int = 2
    available_now: bool = False
    driver_memory: str = "2g"
