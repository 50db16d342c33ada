"""The text of a failed query: the batch, the pipeline, and the cause."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from endmark.driver.planned_batches import unfinished_batch

if TYPE_CHECKING:
    from endmark.kafka.cluster import ClusterOrAddress
    from endmark.storage import Location


# What to do about causes that fit a pattern.
_REMEDIES = {
    "RecordTooLargeException": "raise max.message.bytes of the topic that is published, up to 32 MB",
    # Java has one exception for a file that is missing and one that it may not open.
    r"FileNotFoundException: .*\((?:Read-only file system|Permission denied|Too many open files)\)": (
        "mend the disk, the rights or the limits of the job, and run it again from its checkpoint, which is "
        "whole"
    ),
    r"(?:Checksum|NoSuchFile|FileNotFound)Exception: .*/spark/state/": (
        "restore this file from a copy of the checkpoint, or begin a new checkpoint by `endmark migrate FILE`"
    ),
    "ModuleNotFoundError: No module named |Cannot run program ": (
        "let spark.pyspark.python name a Python that has endmark and its packages, on the driver and on each "
        "node (docs/cluster.md)"
    ),
}
# Spark's words for a file that another job has written to a checkpoint without a lock.
_OTHERS_FILE = r"File already exists: .*/spark/(?:offsets|commits)/\d|CONCURRENT_STREAM_LOG_UPDATE"


def failure_of(failure: str, pipeline: str, spark_checkpoint: Location, bootstrap: ClusterOrAddress) -> str:
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


def cause_of(failure: str, bootstrap: ClusterOrAddress) -> str:
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
    for pattern, remedy in _REMEDIES.items():
        if re.search(pattern, cause):
            return f"{cause}; {remedy}"
    if re.search(_OTHERS_FILE, cause):
        return (
            f"another job has gone on from this checkpoint, and this one writes nothing more: {cause}. It "
            "was paused for so long that it counted as dead"
        )
    if "org.apache.kafka" in cause:
        return f"Kafka at {bootstrap}: {cause}; when it is back, run the job again from its checkpoint"
    return cause
