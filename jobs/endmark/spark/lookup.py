"""The lookup join of a pipeline, as the tasks of its buckets need it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from endmark.joins.lookup.cache import CacheSpec, FrontCache
from endmark.joins.lookup.costs import measure
from endmark.joins.lookup.intake import BATCH, Intake, IntakeSpec
from endmark.joins.lookup.operator import LookupSpec, Misses, Source
from endmark.joins.lookup.resolve import Budget
from endmark.joins.lookup.versions import Versions
from endmark.metrics import Samples, sample
from endmark.spark.channels import DEAD_LETTER_SCHEMA, VALUE
from endmark.spark.lookup_over import OverKeys
from endmark.spark.streams import microseconds
from endmark.state.keys import KeySpec

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from endmark.joins.lookup.intake import Arrivals
    from endmark.joins.lookup.operator import Fate, LookupOutput
    from endmark.pipeline import Lookup as Declared
    from endmark.pipeline import Pipeline
    from endmark.relation.contract import PageDirectory, RelationReader
    from endmark.spark.streams import StreamPlan
    from endmark.state.store import SegmentStore

NO_MATCH = "no_match"
_SECOND = 1_000_000


@dataclass(frozen=True)
class LookupPlan:
    """The lookup of one stream.

    Args:
        stream, relation: their names.
        intake: what is looked up, and how rows go on.
        source: the relation.
        reading: entered around the reads of a batch.
        cache: how much of the relation a Python process keeps at hand; `None` is nothing.
        cache_name: the cache that all buckets of a process share.
        over: tells what the cache need not keep; `None` if punctuations say nothing of it.
    """

    stream: str
    relation: str
    intake: IntakeSpec
    source: Source
    reading: Callable[[], AbstractContextManager[None]]
    cache: CacheSpec | None
    cache_name: str
    over: OverKeys | None = None

    @property
    def fate(self) -> Fate:
        """Of rows that have no match in the end."""
        return self.intake.lookup.misses.fate


def lookup_plan(
    pipeline: Pipeline,
    stream: StreamPlan,
    buckets: int,
    reader: RelationReader,
    directory: PageDirectory,
    reading: Callable[[], AbstractContextManager[None]],
    cache_name: str,
) -> LookupPlan:
    """Plan of a pipeline's lookup; measures what reads of the relation cost.

    Args:
        stream: that is looked up.
        buckets: which share `lookup.memory`.
        reader, directory, reading, cache_name: as `LookupPlan` has them.
    """
    declared = pipeline.lookup
    keeps_value = declared.fate == "dead_letter"
    costs = measure(reader, directory)
    unique = declared.unique and declared.as_of is None
    source = Source(reader, directory, declared.strategy, costs, unique=unique)
    lookup = LookupSpec(
        schema=_schema(stream, keeps_value=keeps_value),
        key=KeySpec.of(
            [f"{stream.name}_{name}" for name in declared.key],
            [stream.columns[name].arrow for name in declared.key],
        ),
        renamed={
            name: f"{declared.relation}_{name}" for name in reader.schema.names if name not in reader.key
        },
        misses=_misses(declared),
        budget=Budget(
            seconds=None if declared.time_per_batch is None else declared.time_per_batch.total_seconds()
        ),
        capacity=max(1, declared.memory // buckets),
        versions=_versions(stream, declared),
    )
    intake = IntakeSpec(
        lookup, stream.side.key, (VALUE,) if keeps_value else (), carries=declared.time_per_batch is not None
    )
    cache = None
    if declared.cache is not None:
        lifetime = microseconds(declared.cache.lifetime) or 0
        absent_lifetime = microseconds(declared.cache.absent_lifetime) or 0
        cache = CacheSpec(declared.cache.memory, lifetime, absent_lifetime)
    over = OverKeys.of(stream, declared.key)
    return LookupPlan(stream.name, declared.relation, intake, source, reading, cache, cache_name, over)


def _versions(stream: StreamPlan, declared: Declared) -> Versions | None:
    as_of = declared.as_of
    return None if as_of is None else Versions(f"{stream.name}_{as_of.stream}", as_of.relation)


def _misses(declared: Declared) -> Misses:
    if declared.park is None:
        return Misses(declared.fate)
    return Misses(declared.fate, declared.park.attempts, microseconds(declared.park.delay) or 0)


def _schema(stream: StreamPlan, *, keeps_value: bool) -> pa.Schema:
    """Of the rows that ingest packs, numbered by batch."""
    fields = [(f"{stream.name}_{name}", kind.arrow) for name, kind in stream.columns.items()]
    fields += [(str(stream.side.partition), pa.int64()), (str(stream.side.offset), pa.int64())]
    fields += [(VALUE, pa.binary())] if keeps_value else []
    return pa.schema([*fields, (BATCH, pa.int64())])


class Lookup:
    """One bucket's lookup, batch by batch; `Intake` with a clock, a cache and figures."""

    def __init__(self, plan: LookupPlan, store: SegmentStore, restored: bytes | None) -> None:
        self._plan = plan
        self._cache = None
        if plan.cache is not None:
            reader = plan.source.reader
            kinds = tuple(reader.schema.field(name).type for name in reader.key)
            self._cache = _shared_cache(
                plan.cache_name, plan.cache, KeySpec.of(reader.key, kinds), reader.schema
            )
        self._intake = Intake(plan.intake, plan.source, store, self._cache, restored, plan.reading)

    def snapshot(self) -> bytes:
        return self._intake.snapshot()

    @property
    def held_promises(self) -> list[dict[str, Any]]:
        return self._intake.held_promises

    def process(self, came: Arrivals, *, pause: bool) -> list[Arrivals]:
        """As `Intake.process`, now."""
        entering = self._intake.process(came, _now(), pause=pause)
        if self._cache is not None and self._plan.over is not None:
            over = self._plan.over.named(came)
            if over is not None:
                self._cache.evict(over)
        return entering

    def samples(self, rows: int) -> Samples:
        """Figures of the last batch, in which so many rows came."""
        output = self._intake.output
        samples = Samples()
        counts = {
            "lookup_rows_total": rows,
            "lookup_missed_rows_total": output.misses,
            "lookup_cached_rows_total": output.cached_rows,
            "lookup_read_rows_total": output.figures.rows,
            "lookup_read_seconds_total": output.figures.seconds,
            "lookup_pending_rows": output.pending_rows,
            "lookup_pending_bytes": output.pending_bytes,
            "lookup_memory_bytes": self._plan.intake.lookup.capacity or 0,
            "lookup_parked_rows": output.parked_rows,
            "lookup_held_rows": self._intake.held_rows,
            "lookup_held_bytes": self._intake.held_bytes,
        }
        relation = self._plan.relation
        for name, value in counts.items():
            samples[sample(name, relation=relation)] = value
        for by, reads in _reads(output).items():
            samples[sample("lookup_reads_total", relation=relation, by=by)] = reads
        for strategy, seconds in output.predicted.items():
            samples[sample("lookup_expected_seconds", relation=relation, strategy=strategy)] = seconds
        return samples

    def greatest(self) -> Samples:
        """Figures of which the greatest of all buckets counts."""
        if self._cache is None:
            return {}
        age = self._cache.age(_now()) / _SECOND
        return {sample("lookup_cache_age_seconds", relation=self._plan.relation): age}

    def least(self, *, owed: bool) -> Samples:
        """Times of which the least of all buckets counts; nothing of what there is not.

        Args:
            owed: whether the join waits for a batch, too.
        """
        now = _now()
        times = {
            "batch_due_time_seconds": now if owed else self._intake.due(now),
            "lookup_waiting_time_seconds": self._intake.waits_since,
        }
        return {sample(name): time / _SECOND for name, time in times.items() if time is not None}


def missed_letters(stream: StreamPlan, relation: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    """What the dead letters table keeps of rows without a match."""
    found = {
        "topic": pa.repeat(pa.scalar(stream.topic), rows.num_rows),
        "partition": rows.column(stream.side.partition).cast(pa.int32()),
        "offset": rows.column(stream.side.offset),
        "reason": pa.repeat(pa.scalar(NO_MATCH), rows.num_rows),
        "error": pa.repeat(pa.scalar(f"{relation} has no row of this key"), rows.num_rows),
        "value": rows.column(VALUE),
    }
    columns = [found[field.name] for field in DEAD_LETTER_SCHEMA]
    return pa.record_batch(columns, schema=DEAD_LETTER_SCHEMA)


def _reads(output: LookupOutput) -> dict[str, int]:
    return {"page": output.figures.pages, "list": output.figures.lists}


def _now() -> int:
    return time.time_ns() // 1_000


@lru_cache(maxsize=2)
def _shared_cache(name: str, spec: CacheSpec, key: KeySpec, schema: pa.Schema) -> FrontCache:
    """The cache of that name in this process; tasks come and go."""
    return FrontCache(spec, key, schema)
