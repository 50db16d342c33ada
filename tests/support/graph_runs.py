"""Runs a pipeline of any shape on records, and holds its tables against the recomputation of `verify`."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

from endmark.engine.bucket import lookups
from endmark.pipeline import Pipeline
from support import kept_promises
from support.bucket_tasks import BucketTasks, Tables, pauses, upserted
from support.graph_world import with_published_rows
from support.verify_others import OTHERS
from support.verify_recompute import recomputed, require_within, sellers_of
from support.verify_world import Record, locate
from support.written_tables import WrittenTables

STEP = 200_000  # microseconds, of the clock that tells when parked rows are due


def require_same(
    pipeline: Pipeline,
    records: list[Record],
    cuts: Collection[int],
    partitions: Mapping[str, int],
    **sizes: Any,
) -> Tables:
    """Assert that all tables equal their recomputation, and return them.

    Tables with a layout are written and read back.

    Args:
        pipeline: the pipeline.
        records: all records.
        cuts: the numbers of records behind which batches end.
        partitions: counted by topic.
        sizes: further arguments of `BucketTasks`.
    """
    clock = count(0, STEP)
    located, places = locate(records), sorted(cuts)
    batches = [located[start:end] for start, end in zip([0, *places], [*places, len(located)], strict=True)]
    with tempfile.TemporaryDirectory() as directory, patch.object(lookups, "_now", clock.__next__):
        sellers = sellers_of(pipeline)
        tasks = BucketTasks(pipeline, sellers, partitions, Path(directory), others=OTHERS, **sizes)
        came = [*map(tasks.batch, batches), *pauses(tasks)]
        found = upserted(pipeline, came)
        if any(table.partition_by for table in pipeline.tables.values()):
            written = WrittenTables(pipeline, Path(directory))
            for number, tables in enumerate(came):
                written.commit(tables, number)
            found |= written.read()
    if pipeline.shows_results:
        assert list(kept_promises.broken_promises(pipeline, came)) == []
    pipeline = with_published_rows(pipeline)
    with recomputed(pipeline, records, found, partitions) as session:
        require_within(session, pipeline)
    return found
