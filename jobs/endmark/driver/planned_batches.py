"""The batches of a Spark checkpoint: the offsets that each one reads, and whether it is committed.

Spark writes a file with end offsets before it runs a batch, and a file of the same name in `commits` once the
batch is committed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from endmark.storage import entries, text_if_any

if TYPE_CHECKING:
    from endmark.storage import Location

_PARTITIONS_NAMED = 8


def unfinished_batch(spark_checkpoint: Location) -> str | None:
    """Describe the batch that is planned but not committed, with its offsets; `None` if there is none."""
    planned = newest(spark_checkpoint / "offsets")
    if planned is None or planned == newest(spark_checkpoint / "commits"):
        return None
    ends = _offsets(spark_checkpoint, planned)
    starts = _offsets(spark_checkpoint, planned - 1) if planned else {}
    read = [
        f"{topic}/{partition} offsets {start} to {end - 1}"
        for topic, partitions in sorted(ends.items())
        for partition, end in sorted(partitions.items(), key=lambda each: int(each[0]))
        if end > (start := starts.get(topic, {}).get(partition, 0))
    ]
    if len(read) > _PARTITIONS_NAMED:
        read[_PARTITIONS_NAMED:] = [f"{len(read) - _PARTITIONS_NAMED} more partitions"]
    return f"batch {planned}" + (f" ({', '.join(read)})" if read else "")


def planned_ends(spark_checkpoint: Location) -> dict[str, dict[str, int]]:
    """Return the first offset that no batch was planned for, by topic and partition; empty before a batch."""
    planned = newest(spark_checkpoint / "offsets")
    return {} if planned is None else _offsets(spark_checkpoint, planned)


def newest(log: Location) -> int | None:
    """Return the greatest number among the names of files in one of Spark's logs; `None` without files."""
    return max((int(name) for name in entries(log) if name.isdecimal()), default=None)


def _offsets(spark_checkpoint: Location, batch: int) -> dict[str, dict[str, int]]:
    """Return end offsets by topic and partition. The file has two lines of metadata, then one a source."""
    found: dict[str, dict[str, int]] = {}
    for line in (text_if_any(spark_checkpoint, f"offsets/{batch}") or "").splitlines()[2:]:
        found |= json.loads(line)
    return found
