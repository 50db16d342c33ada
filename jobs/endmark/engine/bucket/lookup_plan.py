"""The plans of a pipeline's lookups, for the tasks of its buckets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from endmark.engine.bucket.evicted_keys import EvictedKeys
from endmark.engine.channels import VALUE
from endmark.engine.streams import microseconds
from endmark.operators.lookup.cache import CacheSpec
from endmark.operators.lookup.gate import ROW, GateSpec
from endmark.operators.lookup.held_batches import BATCH
from endmark.operators.lookup.join import LookupSpec, Misses, Source
from endmark.operators.lookup.read_timing import measure
from endmark.operators.lookup.reader import Budget
from endmark.operators.lookup.versions import Versions
from endmark.state.keys import KeySpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from endmark.engine.bucket.lookup_levels import LookupPosition
    from endmark.engine.streams import StreamPlan
    from endmark.operators.lookup.join import Fate
    from endmark.pipeline import Lookup as Declared
    from endmark.pipeline import Pipeline
    from endmark.relation.contract import PageDirectory, PagedRelation


@dataclass(frozen=True)
class LookupPlan:
    """The plan of one lookup of one stream.

    Args:
        stream, relation: the names of the stream and of the relation.
        step: the field of the lookup in the pipeline file, which begins the names of its knobs.
        level: the number of the lookup's level among those of the stream.
        gate: the specification of the gate between the lookup and the join.
        source: the relation, and the way it is read.
        reading: makes a context that is entered around the reads of a batch.
        cache: the size and lifetimes of the cache of each Python process; `None` is no cache.
        cache_name: a name of the job. Its buckets share one cache in each process.
        buckets: the number of buckets, which share the lookup's memory.
        page_rows: the number of rows on a page in the source's directory.
        paged: makes a directory, given the number of rows on a page.
        evicted: finds keys that the cache need not keep; `None` if punctuations cannot name any.
    """

    stream: str
    relation: str
    step: str
    level: int
    gate: GateSpec
    source: Source
    reading: Callable[[], AbstractContextManager[None]]
    cache: CacheSpec | None
    cache_name: str
    buckets: int
    page_rows: int
    paged: Callable[[int], PageDirectory]
    evicted: EvictedKeys | None = None

    @property
    def fate(self) -> Fate:
        """The fate of rows that are given up without a match."""
        return self.gate.lookup.misses.fate


def lookup_plan(
    declared: Declared,
    position: LookupPosition,
    stream: StreamPlan,
    buckets: int,
    reader: PagedRelation,
    directory: PageDirectory,
    reading: Callable[[], AbstractContextManager[None]],
    cache_name: str,
) -> LookupPlan:
    """Make the plan of one lookup, and measure the costs of reads of its relation for it.

    Args:
        declared: the lookup in the pipeline file.
        position: its position among the lookups of its stream.
        stream: the stream that is looked up.
        buckets: the number of buckets, which share its `memory`.
        reader: reads the relation.
        directory: the pages of the relation.
        reading, cache_name: the fields of `LookupPlan`.
    """
    costs = measure(reader, directory)
    schema, key = _schema(stream, position), [column.in_results for column in position.asked.key]
    unique = declared.unique and declared.as_of is None
    source = Source(reader, directory, declared.strategy, costs, unique=unique)
    lookup = LookupSpec(
        schema=schema,
        key=KeySpec.of(key, [schema.field(name).type for name in key]),
        renamed={
            name: f"{declared.relation}_{name}" for name in reader.schema.names if name not in reader.key
        },
        misses=_misses(declared),
        budget=Budget(
            seconds=None if declared.time_per_batch is None else declared.time_per_batch.total_seconds()
        ),
        capacity=share(declared.memory, buckets),
        versions=_versions(declared, position),
    )
    cache = None
    if declared.cache is not None:
        lifetime = microseconds(declared.cache.lifetime) or 0
        absent_lifetime = microseconds(declared.cache.absent_lifetime) or 0
        cache = CacheSpec(declared.cache.memory, lifetime, absent_lifetime)
    gate = _gate(stream, lookup, position, carries=declared.time_per_batch is not None)
    return LookupPlan(
        stream=stream.name,
        relation=declared.relation,
        step=position.step,
        level=position.level,
        gate=gate,
        source=source,
        reading=reading,
        cache=cache,
        cache_name=cache_name,
        buckets=buckets,
        page_rows=declared.page_rows,
        paged=reader.directory,
        evicted=EvictedKeys.of(stream, key),
    )


def unpaged_lookups(pipeline: Pipeline, directories: Mapping[str, PageDirectory]) -> dict[str, str]:
    """Return the reason why a lookup's relation has no pages, by the field of the lookup.

    Args:
        pipeline: the pipeline.
        directories: the page directory of each relation, by the relation's name.
    """
    reasons = {pipeline.field_of(each): directories[each.relation].unpaged for each in pipeline.lookups}
    return {field: why for field, why in reasons.items() if why is not None}


def share(memory: int, buckets: int) -> int:
    """Return the bytes that the rows of one of `buckets` buckets may take."""
    return max(1, memory // buckets)


def _gate(stream: StreamPlan, lookup: LookupSpec, position: LookupPosition, *, carries: bool) -> GateSpec:
    found = tuple(position.found.names)
    # A row of a derived stream has no coordinates of its own, so each of its rows counts as a record.
    has_coordinates = position.level and stream.side.partition is not None
    record = (str(stream.side.partition), str(stream.side.offset)) if has_coordinates else ()
    key, codec = stream.side.key, stream.side.codec
    if position.first:
        dropped = (VALUE,) if stream.keeps_value and position.last and not position.stepped else ()
        return GateSpec(lookup, key, codec, dropped, carries, position.number, record, found)
    dropped = tuple(name for name in lookup.schema.names if name not in (ROW, BATCH))
    by_row = KeySpec.of([ROW], [pa.int64()])
    return GateSpec(lookup, by_row, codec, dropped, carries, position.number, record, found)


def _versions(declared: Declared, position: LookupPosition) -> Versions | None:
    if declared.as_of is None or position.asked.time is None:
        return None
    return Versions(position.asked.time.in_results, declared.as_of.relation)


def _misses(declared: Declared) -> Misses:
    if declared.park is None:
        return Misses(declared.fate)
    return Misses(declared.fate, declared.park.attempts, microseconds(declared.park.delay) or 0)


def _schema(stream: StreamPlan, position: LookupPosition) -> pa.Schema:
    """Return the schema of the rows that a lookup gets: they arrive packed; earlier levels add columns."""
    fields = [(name, kind.arrow) for name, kind in stream.columns.items()]
    if stream.side.partition is not None:
        fields = [(f"{stream.name}_{name}", kind) for name, kind in fields]
        fields += [(stream.side.partition, pa.int64()), (str(stream.side.offset), pa.int64())]
    fields += [(VALUE, pa.binary())] if stream.keeps_value else []
    fields += [] if position.alone else [(ROW, pa.int64())]
    return pa.schema([*fields, *position.found, (BATCH, pa.int64())])
