"""The lookups of a stream in the task of a bucket, with their clock, caches and figures."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from endmark.engine.bucket.process_caches import shared_cache
from endmark.engine.channels import DEAD_LETTER_SCHEMA, VALUE
from endmark.metrics import Samples, sample
from endmark.operators.lookup.gate import Gate
from endmark.operators.lookup.gates import MISSED, Gates, side_by_side
from endmark.stored_text import storable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from endmark.engine.bucket.lookup_plan import LookupPlan
    from endmark.engine.streams import StreamPlan
    from endmark.operators.lookup.join import LookupOutput
    from endmark.operators.stream_batch import StreamBatch
    from endmark.state.store import SegmentStore

NO_MATCH = "no_match"
_SECOND = 1_000_000


class StreamLookups:
    """One bucket's lookups of one stream, batch by batch: gates with a clock, caches and figures.

    Args:
        plans: the plans of the stream's lookups, in their order.
        store: keeps the rows that wait.
        restored: the snapshots of an earlier task, by relation.
    """

    def __init__(
        self, plans: Sequence[LookupPlan], store: SegmentStore, restored: Mapping[str, bytes]
    ) -> None:
        self._lookups = [_Lookup(plan, store, restored.get(plan.relation)) for plan in plans]
        self.gates = Gates([lookup.gate for lookup in self._lookups])

    def snapshot(self) -> dict[str, bytes]:
        """Return the state of each lookup, by relation."""
        return {lookup.plan.relation: lookup.gate.snapshot() for lookup in self._lookups}

    def evict(self, came: StreamBatch) -> None:
        """Free the rows of R in caches that a batch of the stream closes."""
        for lookup in self._lookups:
            lookup.evict(came)

    def samples(self, rows: int) -> Samples:
        """Return the figures of the last batch, in which `rows` rows came."""
        return {name: value for lookup in self._lookups for name, value in lookup.samples(rows).items()}

    def ages(self, now: int) -> Samples:
        """Return the ages of the caches, in seconds."""
        return {name: value for lookup in self._lookups for name, value in lookup.ages(now).items()}


def process(
    lookups: Mapping[str, StreamLookups], came: Mapping[str, StreamBatch], *, pause: bool
) -> dict[str, list[StreamBatch]]:
    """Look up one batch; return the batches that enter the join, by the streams that are looked up.

    Args:
        lookups: by the name of their stream.
        came: the batch, by stream.
        pause: leave no row waiting, parked ones aside.
    """
    now = _now()
    entering = side_by_side(
        [partial(each.gates.process, came[name], now, pause=pause) for name, each in lookups.items()]
    )
    for name, each in lookups.items():
        each.evict(came[name])
    return dict(zip(lookups, entering, strict=True))


def ages(lookups: Iterable[StreamLookups]) -> Samples:
    """Return the ages of caches in seconds; of all buckets, the greatest counts."""
    now = _now()
    return {name: age for each in lookups for name, age in each.ages(now).items()}


def times(lookups: Collection[StreamLookups], *, owed: bool) -> Samples:
    """Return the Unix times of waiting rows in seconds; of all buckets, the least counts.

    Args:
        lookups: the lookups of all streams.
        owed: the join waits for another batch, too.
    """
    now = _now()
    found = {
        "batch_due_time_seconds": [now if owed else None, *(each.gates.due(now) for each in lookups)],
        "lookup_waiting_time_seconds": [each.gates.waits_since for each in lookups],
    }
    known = {name: [time for time in some if time is not None] for name, some in found.items()}
    return {sample(name): min(some) / _SECOND for name, some in known.items() if some}


class _Lookup:
    """One lookup of a stream."""

    def __init__(self, plan: LookupPlan, store: SegmentStore, restored: bytes | None) -> None:
        self.plan = plan
        self._cache = None if plan.cache is None else shared_cache(plan, plan.cache)
        self.gate = Gate(plan.gate, plan.source, store, self._cache, restored, plan.reading)

    def evict(self, came: StreamBatch) -> None:
        """Free the rows of R in the cache that the stream will not ask for again."""
        if self._cache is not None and self.plan.over is not None:
            over = self.plan.over.closed_keys(came)
            if over is not None:
                self._cache.evict(over)

    def samples(self, rows: int) -> Samples:
        output = self.gate.output
        samples = Samples()
        counts = {
            "lookup_rows_total": rows,
            "lookup_missed_rows_total": output.misses,
            "lookup_cached_rows_total": output.cached_rows,
            "lookup_read_rows_total": output.figures.rows,
            "lookup_read_seconds_total": output.figures.seconds,
            "lookup_pending_rows": output.pending_rows,
            "lookup_pending_bytes": output.pending_bytes,
            "lookup_memory_bytes": self.plan.gate.lookup.capacity or 0,
            "lookup_parked_rows": output.parked_rows,
            "lookup_held_rows": self.gate.held.rows,
            "lookup_held_bytes": self.gate.held.memory,
            "lookup_ordered_rows_total": output.ordered_rows,
            "lookup_ordered_bytes_total": output.ordered_bytes,
            "lookup_ordered_seconds_total": output.ordered_seconds,
            "lookup_tasks": 1,
            "lookup_pages": output.pages / self.plan.buckets,
        }
        relation = self.plan.relation
        for name, value in counts.items():
            samples[sample(name, relation=relation)] = value
        for by, reads in _reads(output).items():
            samples[sample("lookup_reads_total", relation=relation, by=by)] = reads
        for of, seconds in output.costs.items():
            name = sample("lookup_cost_seconds", relation=relation, of=of)
            samples[name] = seconds / self.plan.buckets
        for strategy, seconds in output.predicted.items():
            samples[sample("lookup_expected_seconds", relation=relation, strategy=strategy)] = seconds
        return samples

    def ages(self, now: int) -> Samples:
        if self._cache is None:
            return {}
        age = self._cache.age(now) / _SECOND
        return {sample("lookup_cache_age_seconds", relation=self.plan.relation): age}


def missed_letters(
    stream: StreamPlan, plans: Sequence[LookupPlan], rows: pa.RecordBatch
) -> Iterator[pa.RecordBatch]:
    """Make dead letters of rows that lookups have given up.

    Args:
        stream: the plan of the rows' stream.
        plans: the plans of its lookups, in their order.
        rows: the rows, with the column `MISSED`.
    """
    for place, plan in enumerate(plans):
        mine = rows.filter(pc.equal(rows.column(MISSED), place))
        if plan.fate == "dead_letter" and mine.num_rows:
            yield _letters(stream, plan.relation, mine)


def _letters(stream: StreamPlan, relation: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    found = {
        "topic": pa.repeat(pa.scalar(stream.topic), rows.num_rows),
        "partition": rows.column(stream.side.partition).cast(pa.int32()),
        "offset": rows.column(stream.side.offset),
        "reason": pa.repeat(pa.scalar(NO_MATCH), rows.num_rows),
        "error": pa.repeat(pa.scalar(storable(f"{relation} has no row of this key")), rows.num_rows),
        "value": rows.column(VALUE),
    }
    columns = [found[field.name] for field in DEAD_LETTER_SCHEMA]
    return pa.record_batch(columns, schema=DEAD_LETTER_SCHEMA)


def _reads(output: LookupOutput) -> dict[str, int]:
    return {"page": output.figures.pages, "list": output.figures.lists}


def _now() -> int:
    return time.time_ns() // 1_000
