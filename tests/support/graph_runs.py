"""Runs a pipeline of any shape on records, and holds its tables against the recomputation of `verify`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

from endmark.engine import channels
from endmark.engine.bucket import lookups
from endmark.pipeline import Pipeline
from endmark.pipeline.chain import chained
from endmark.verify.read.added_columns import NOTHING_ADDED, AddedColumns
from support import kept_promises
from support.bucket_tasks import BucketTasks, Located, Tables, pauses, upserted
from support.published_rows import with_published_rows
from support.published_topics import sent_records
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
    before: tuple[int, Pipeline] | None = None,
    **sizes: Any,
) -> Tables:
    """Assert that all tables and published topics equal their recomputation, and return the tables.

    Tables with a layout are written and read back.

    Args:
        pipeline: the pipeline.
        records: all records.
        cuts: the numbers of records behind which batches end.
        partitions: counted by topic.
        before: a number of batches, and the pipeline that these have, whose streams have fewer columns;
            `None`: all batches have one pipeline.
        sizes: further arguments of `BucketTasks`.
    """
    clock = count(0, STEP)
    located, places = locate(records), sorted(cuts)
    batches = [located[start:end] for start, end in zip([0, *places], [*places, len(located)], strict=True)]
    added = NOTHING_ADDED
    with tempfile.TemporaryDirectory() as directory, patch.object(lookups, "_now", clock.__next__):
        sellers = sellers_of(pipeline)
        tasks = BucketTasks(pipeline, sellers, partitions, Path(directory), others=OTHERS, **sizes)
        came: list[Tables] = []
        if before is not None:
            number, earlier = before
            former = BucketTasks(earlier, sellers, partitions, Path(directory), others=OTHERS, **sizes)
            came = [former.batch(batch) for batch in batches[:number]]
            tasks.go_on_from(former)
            added = added_columns(pipeline, earlier, [one for batch in batches[:number] for one in batch])
        came += [*map(tasks.batch, batches[len(came) :]), *pauses(tasks)]
        found = upserted(pipeline, came)
        if any(table.partition_by for table in pipeline.tables.values()):
            written = WrittenTables(pipeline, Path(directory))
            for number, tables in enumerate(came):
                written.commit(tables, number)
            found |= written.read()
    if pipeline.outputs.shows_results:
        assert list(kept_promises.broken_promises(pipeline, came)) == []
        require_declared(pipeline, found)
    pipeline = with_published_rows(pipeline)
    published = sent_records(pipeline, came)
    with recomputed(pipeline, records, found, partitions, added, published) as session:
        require_within(session, pipeline)
    return found


def require_declared(pipeline: Pipeline, found: Tables) -> None:
    """Assert that whoever reads the published results knows the columns of all output punctuations."""
    if pipeline.flow.results not in pipeline.publish or not pipeline.last_stage.present_inputs:
        return
    read = chained(pipeline, pipeline.flow.results, timedelta(0))
    restricted = {name for row in found[channels.ANNOUNCED] for name in json.loads(row["punctuation"])}
    assert restricted <= {*read.punctuated_on, *read.skipped_on}


def added_columns(pipeline: Pipeline, earlier: Pipeline, read: Sequence[Located]) -> AddedColumns:
    """Return the columns that an earlier pipeline lacks; `read` are all records that it has read."""
    ends: dict[str, dict[int, int]] = {}
    for topic, partition, offset, *_ in read:
        ends.setdefault(topic, {})[partition] = offset + 1
    return AddedColumns(
        {
            name: {
                column: ends.get(stream.topic, {})
                for column in stream.columns
                if column not in earlier.streams[name].columns
            }
            for name, stream in pipeline.streams.items()
        }
    )
