"""Counts what a batch of the join has done."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from endmark.metrics import sample

if TYPE_CHECKING:
    from endmark.engine.bucket.plan import BucketPlan
    from endmark.operators.stream_join.segment_join import BatchOutput


def count_output(plan: BucketPlan, output: BatchOutput, samples: Counter[str]) -> None:
    """Add the metrics of a batch of the join to `samples`."""
    for (name, label), count in output.counts.items():
        if name == "propagated_punctuations_total":
            samples[sample(name, by=label)] += count
        else:
            samples[sample(name, **({"stream": label} if label else {}))] += count
    for stream, count in output.duplicates.items():
        deduplication = plan.stream(stream).side.deduplication
        if deduplication is not None:
            samples[sample("filtered_rows_total", stream=stream, step=deduplication.step)] += count
    for violation in output.violations:
        for read, rows in plan.stream(violation.side).by_member(violation.rows):
            key = sample("violations_total", stream=read.name, reason=violation.reason)
            samples[key] += rows.num_rows
            if read.side.partition is None:  # rows of a frame have no partition
                continue
            for number, count in Counter(rows.column(read.side.partition).to_pylist()).items():
                at = str(read.member.partition(number))
                samples[sample("partition_violations_total", stream=read.name, partition=at)] += count
