"""Runs the records of a random history through all buckets, cut into random batches."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st

from endmark.engine.bucket import lookups
from endmark.pipeline import Pipeline
from support.bucket_tasks import BucketTasks, Tables, pauses
from support.sizes import Sizes
from support.verify_others import OTHERS
from support.verify_recompute import sellers_of
from support.verify_world import Placed, Record, locate

STEP = 200_000  # microseconds, of the clock that tells when parked rows are due


@contextmanager
def random_tasks(
    data: st.DataObject, pipeline: Pipeline, sizes: Sizes, **more: Any
) -> Iterator[tuple[BucketTasks, int]]:
    """Yield the tasks of all buckets, and how many records a batch of them takes.

    Args:
        data: draws the number of records of a batch and of a full one.
        pipeline: the pipeline.
        sizes: the partitions, buckets, and sizes at which segments merge.
        more: further arguments of `BucketTasks`.
    """
    size = data.draw(st.integers(1, 20))
    with tempfile.TemporaryDirectory() as directory, sizes.merging.limits():
        yield (
            BucketTasks(
                pipeline,
                sellers_of(pipeline),
                sizes.partitions,
                Path(directory),
                full_batch=data.draw(st.sampled_from([None, 1, size])),
                others=OTHERS,
                buckets=sizes.buckets,
                **more,
            ),
            size,
        )


def batches_of(records: Sequence[Record], size: int) -> list[list[Placed]]:
    """Return the records in batches of `size`; the last one may be smaller."""
    located = locate(list(records))
    return [located[at : at + size] for at in range(0, len(located), size)]


def in_random_batches(
    data: st.DataObject, pipeline: Pipeline, records: Sequence[Record], sizes: Sizes
) -> list[Tables]:
    """Return what each batch puts out, with the pauses behind the last one, in which parked rows leave."""
    clock = count(0, STEP)
    with patch.object(lookups, "_now", clock.__next__), random_tasks(data, pipeline, sizes) as (tasks, size):
        return [*map(tasks.batch, batches_of(records, size)), *pauses(tasks)]
