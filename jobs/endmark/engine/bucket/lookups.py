"""The lookups of all streams in the task of a bucket, with their caches and metrics."""

from __future__ import annotations

import time
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from endmark.engine.bucket.looked_up_steps import LookedUpSteps
from endmark.engine.bucket.process_caches import note_growth, shared_cache
from endmark.engine.channels import DEAD_LETTER_SCHEMA, VALUE
from endmark.engine.ingest.stepped_rows import EXPRESSION
from endmark.metrics import Samples, sample
from endmark.operators.lookup.gate import MISSED, Gate, GatedLookup, side_by_side
from endmark.operators.stream_batch import StreamBatch
from endmark.state.segment import int64
from endmark.stored_text import storable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from endmark.engine.bucket.lookup_levels import PlacedStep
    from endmark.engine.bucket.lookup_plan import LookupPlan
    from endmark.engine.streams import StreamPlan
    from endmark.operators.lookup.join import LookupOutput
    from endmark.punctuation.punctuation import Punctuation
    from endmark.state.store import SegmentStore

NO_MATCH = "no_match"
_FAILED = "it failed on the row and what lookups have found; the job's log has the first error of a batch"
_SECOND = 1_000_000


class Lookups:
    """The lookups of all streams in one bucket, in levels.

    The lookups of a level are asked side by side. What leaves the gate of a stream's level comes to the gate
    of its next level.

    Attributes:
        streams: the names of the streams that have lookups.

    Args:
        plans: the plans of the lookups; those of one stream in their order.
        store: keeps the rows that wait.
        restored: the snapshots of an earlier task, by relation.
        steps: the row steps behind lookups, by stream.
        streams: the plans of these streams.
    """

    def __init__(
        self,
        plans: Iterable[LookupPlan],
        store: SegmentStore,
        restored: Mapping[str, bytes],
        steps: Mapping[str, Sequence[PlacedStep]] = MappingProxyType({}),
        streams: Iterable[StreamPlan] = (),
    ) -> None:
        self._lookups = [_Lookup(plan, store, restored.get(plan.relation)) for plan in plans]
        self.streams = {lookup.plan.stream for lookup in self._lookups}
        self._levels: list[dict[str, _Level]] = []
        for number in range(max((lookup.plan.level + 1 for lookup in self._lookups), default=0)):
            of_level: dict[str, list[_Lookup]] = {}
            for lookup in self._lookups:
                if lookup.plan.level == number:
                    of_level.setdefault(lookup.plan.stream, []).append(lookup)
            self._levels.append({stream: _Level(lookups) for stream, lookups in of_level.items()})
        self._steps: dict[tuple[str, int], LookedUpSteps] = {}
        for stream in streams:
            placed = steps.get(stream.name, ())
            last = sum(stream.name in level for level in self._levels) - 1
            for number in {each.level for each in placed}:
                mine = [each for each in placed if each.level == number]
                self._steps[stream.name, number] = LookedUpSteps(stream, mine, last=number == last)

    def snapshot(self) -> dict[str, bytes]:
        """Return the state of each lookup, by relation."""
        return {lookup.plan.relation: lookup.gated.snapshot() for lookup in self._lookups}

    def process(self, came: Mapping[str, StreamBatch], *, pause: bool) -> dict[str, list[StreamBatch]]:
        """Look up one batch; return the batches of each stream that enter the join, in order.

        Args:
            came: the batch of each stream, by name. A stream without a lookup enters as it came.
            pause: whether to leave no row waiting, except parked ones.
        """
        now = _now()
        entering = {stream: [batch] for stream, batch in came.items()}
        for number, level in enumerate(self._levels):
            asks = {
                stream: each.gate.asks(entering[stream], now, pause=pause) for stream, each in level.items()
            }
            answers = iter(side_by_side([ask for each in asks.values() for ask in each]))
            for stream, each in level.items():
                each.evict(entering[stream])
                entering[stream] = each.gate.enter(list(islice(answers, len(asks[stream]))))
                if (steps := self._steps.get((stream, number))) is not None:
                    entering[stream] = [steps.through(batch) for batch in entering[stream]]
        for lookup in self._lookups:
            note_growth(lookup.plan, lookup.gated.output.figures)
        return {stream: batches or [StreamBatch()] for stream, batches in entering.items()}

    @property
    def is_idle(self) -> bool:
        """True if no row waits for a relation, or for such rows."""
        return all(lookup.gated.is_idle for lookup in self._lookups)

    def held_promises(self, stream: str) -> list[Punctuation]:
        """Return the promises of a stream that have come, and have not entered the join."""
        return [promise for gate in self._gates(stream) for promise in gate.held_promises]

    def held_rows(self, stream: str) -> int:
        """Return the number of rows of a stream that have come, and have not entered the join."""
        levels = [level[stream] for level in self._levels if stream in level]
        return sum(level.held_rows for level in levels)

    def samples(self) -> Samples:
        """Return the samples of the last batch."""
        found = {name: value for lookup in self._lookups for name, value in lookup.samples().items()}
        for steps in self._steps.values():
            found |= steps.samples
        return found

    def failures(self) -> list[dict[str, Any]]:
        """Return a report for the sink on each expression of a row step behind a lookup that has failed."""
        found = (failures for steps in self._steps.values() for failures in steps.failures.values())
        return [report for failures in found for report in failures.reports()]

    def ages(self) -> Samples:
        """Return the ages of caches in seconds. The greatest one of all buckets counts."""
        now = _now()
        return {name: age for lookup in self._lookups for name, age in lookup.ages(now).items()}

    def times(self, *, owed: bool) -> Samples:
        """Return the time when another batch is due, and the arrival time of the oldest held batch.

        Both are Unix times in seconds. The least one of all buckets counts.

        Args:
            owed: whether the join owes results, for which another batch is due now.
        """
        now, gates = _now(), [gate for stream in self.streams for gate in self._gates(stream)]
        found = {
            "batch_due_time_seconds": [now if owed else None, *(gate.due(now) for gate in gates)],
            "lookup_waiting_time_seconds": [gate.waits_since for gate in gates],
        }
        known = {name: [time for time in some if time is not None] for name, some in found.items()}
        return {sample(name): min(some) / _SECOND for name, some in known.items() if some}

    def _gates(self, stream: str) -> list[Gate]:
        return [level[stream].gate for level in self._levels if stream in level]


class _Level:
    """The lookups of one stream that are asked side by side, and their gate."""

    def __init__(self, lookups: Sequence[_Lookup]) -> None:
        self.gate = Gate([lookup.gated for lookup in lookups])
        self._lookups = lookups

    @property
    def held_rows(self) -> int:
        """The number of rows that have come to the gate and have not left it."""
        return max(
            each.gated.held.rows + each.gated.output.pending_rows + each.gated.output.parked_rows
            for each in self._lookups
        )

    def evict(self, came: Iterable[StreamBatch]) -> None:
        """Evict the rows of relations from the caches that the stream will not ask for again."""
        for batch in came:
            for lookup in self._lookups:
                lookup.evict(batch)


class _Lookup:
    """One lookup with its plan and cache."""

    def __init__(self, plan: LookupPlan, store: SegmentStore, restored: bytes | None) -> None:
        self.plan = plan
        self._cache = None if plan.cache is None else shared_cache(plan, plan.cache)
        self.gated = GatedLookup(plan.gate, plan.source, store, self._cache, restored, plan.reading)

    def evict(self, came: StreamBatch) -> None:
        """Evict the rows of R from the cache that the stream will not ask for again."""
        if self._cache is not None and self.plan.evicted is not None:
            keys = self.plan.evicted.closed_keys(came)
            if keys is not None:
                self._cache.evict(keys)

    def samples(self) -> Samples:
        """Return the samples of the last batch."""
        output = self.gated.output
        samples = Samples()
        counts = {
            "lookup_rows_total": output.arrived_rows,
            "lookup_missed_rows_total": output.misses,
            "lookup_cached_rows_total": output.cached_rows,
            "lookup_read_rows_total": output.figures.rows,
            "lookup_read_seconds_total": output.figures.seconds,
            "lookup_pending_rows": output.pending_rows,
            "lookup_pending_bytes": output.pending_bytes,
            "lookup_memory_bytes": self.plan.gate.lookup.capacity or 0,
            "lookup_parked_rows": output.parked_rows,
            "lookup_held_rows": self.gated.held.rows,
            "lookup_held_bytes": self.gated.held.memory,
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
        """Return the age of the cache in seconds; nothing without a cache."""
        if self._cache is None:
            return {}
        age = self._cache.age(now) / _SECOND
        return {sample("lookup_cache_age_seconds", relation=self.plan.relation): age}


def missed_letters(
    stream: StreamPlan, plans: Sequence[LookupPlan], steps: Sequence[PlacedStep], rows: pa.RecordBatch
) -> Iterator[tuple[StreamPlan, str, pa.RecordBatch]]:
    """Make dead letters of rows that lookups and the row steps behind them have given up.

    Args:
        stream: the plan of the rows' stream.
        plans: the plans of its lookups, in their order.
        steps: the row steps behind them.
        rows: the rows, with the column `MISSED`.

    Yields:
        The stream that was read, the reason of some dead letters, and these.
    """
    causes = {
        plan.gate.number: (NO_MATCH, f"{plan.relation} has no row of this key")
        for plan in plans
        if plan.fate == "dead_letter"
    }
    for placed in steps:
        for number, field in placed.failing.items():
            causes[number] = EXPRESSION, f"{field}: {_FAILED}"
    for number, (reason, error) in causes.items():
        mine = rows.filter(pc.equal(rows.column(MISSED), number))
        for read, own in stream.by_member(mine) if mine.num_rows else ():
            yield read, reason, _letters(read, reason, error, own)


def _letters(stream: StreamPlan, reason: str, error: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    numbers = int64(rows.column(stream.side.partition))
    found = {
        "topic": pa.repeat(pa.scalar(stream.topic), rows.num_rows),
        "partition": pa.array(stream.member.partitions_of(numbers), pa.int32()),
        "offset": rows.column(stream.side.offset),
        "reason": pa.repeat(pa.scalar(reason), rows.num_rows),
        "error": pa.repeat(pa.scalar(storable(error)), rows.num_rows),
        "value": rows.column(VALUE),
    }
    columns = [found[field.name] for field in DEAD_LETTER_SCHEMA]
    return pa.record_batch(columns, schema=DEAD_LETTER_SCHEMA)


def _reads(output: LookupOutput) -> dict[str, int]:
    return {"page": output.figures.pages, "list": output.figures.lists}


def _now() -> int:
    return time.time_ns() // 1_000
