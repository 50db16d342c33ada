"""Runs the records of a random history through all buckets, cut into random batches."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from unittest.mock import patch

from hypothesis import strategies as st

from endmark.engine.bucket import lookups
from endmark.pipeline import Pipeline
from support.bucket_tasks import BucketTasks, Tables, pauses
from support.sizes import Sizes
from support.verify_others import OTHERS
from support.verify_recompute import sellers_of
from support.verify_world import Record, locate

STEP = 200_000  # microseconds, of the clock that tells when parked rows are due


def in_random_batches(
    data: st.DataObject, pipeline: Pipeline, records: Sequence[Record], sizes: Sizes
) -> list[Tables]:
    """Return what each batch puts out, with the pauses behind the last one, in which parked rows leave."""
    size = data.draw(st.integers(1, 20))
    clock = count(0, STEP)
    with (
        tempfile.TemporaryDirectory() as directory,
        patch.object(lookups, "_now", clock.__next__),
        sizes.merging.limits(),
    ):
        tasks = BucketTasks(
            pipeline,
            sellers_of(pipeline),
            sizes.partitions,
            Path(directory),
            full_batch=data.draw(st.sampled_from([None, 1, size])),
            others=OTHERS,
            buckets=sizes.buckets,
        )
        located = locate(list(records))
        batches = [located[at : at + size] for at in range(0, len(located), size)]
        return [*map(tasks.batch, batches), *pauses(tasks)]
