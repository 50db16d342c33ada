"""The text of a failed query: the batch, the pipeline, and the cause."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from endmark.kafka_cluster import Kafka

_PARTITIONS_NAMED = 8


def failure_of(failure: str, pipeline: str, spark_checkpoint: Path, bootstrap: Kafka) -> str:
    """Return one line for the console and the run's error: pipeline, batch, offsets and cause.

    Args:
        failure: the text of Spark's exception.
        pipeline: the pipeline's name.
        spark_checkpoint: the directory of the query's checkpoint.
        bootstrap: the Kafka cluster, or the addresses of its brokers; an error of Kafka's client names none.
    """
    batch = unfinished_batch(spark_checkpoint)
    place = f"pipeline {pipeline}" if batch is None else f"pipeline {pipeline}, {batch}"
    return f"{place}: {cause_of(failure, bootstrap)}"


def cause_of(failure: str, bootstrap: Kafka) -> str:
    """Return the cause of a Spark failure in one line: our own error if a task raised one, else Spark's."""
    ours = re.findall(r"^endmark\.\S+Error: (.*)$", failure, re.MULTILINE)
    if ours:
        return str(ours[-1])
    causes = re.findall(r"^(?:Caused by: )?((?:\w+\.)*\w*(?:Exception|Error): .*)$", failure, re.MULTILINE)
    cause = str(causes[-1]) if causes else failure.strip().splitlines()[0]
    if re.search("AuthenticationException|AuthorizationException|SslAuthentication", cause):
        return (
            f"Kafka at {bootstrap} refuses the job: {cause}; correct kafka.tls or kafka.sasl, or give the "
            "user its rights (docs/secured-kafka.md), and run the job again from its checkpoint"
        )
    if "org.apache.kafka" in cause:
        return f"Kafka at {bootstrap}: {cause}; when it is back, run the job again from its checkpoint"
    return cause


def unfinished_batch(spark_checkpoint: Path) -> str | None:
    """Describe the batch that is planned but not committed, with its offsets; `None` if there is none.

    Spark writes a file with end offsets before it runs a batch, and a file of the same name in `commits` once
    the batch is committed.
    """
    planned = _newest(spark_checkpoint / "offsets")
    if planned is None or planned == _newest(spark_checkpoint / "commits"):
        return None
    ends = _offsets(spark_checkpoint / "offsets" / str(planned))
    starts = _offsets(spark_checkpoint / "offsets" / str(planned - 1)) if planned else {}
    read = [
        f"{topic}/{partition} offsets {start} to {end - 1}"
        for topic, partitions in sorted(ends.items())
        for partition, end in sorted(partitions.items(), key=lambda each: int(each[0]))
        if end > (start := starts.get(topic, {}).get(partition, 0))
    ]
    if len(read) > _PARTITIONS_NAMED:
        read[_PARTITIONS_NAMED:] = [f"{len(read) - _PARTITIONS_NAMED} more partitions"]
    return f"batch {planned}" + (f" ({', '.join(read)})" if read else "")


def _newest(log: Path) -> int | None:
    """Return the greatest number among the names of files in one of Spark's logs; `None` without files."""
    numbers = [int(file.name) for file in log.glob("*") if file.name.isdecimal()]
    return max(numbers, default=None)


def _offsets(file: Path) -> dict[str, dict[str, int]]:
    """Return end offsets by topic and partition. The file has two lines of metadata, then one a source."""
    found: dict[str, dict[str, int]] = {}
    if file.exists():
        for line in file.read_text().splitlines()[2:]:
            found |= json.loads(line)
    return found
