"""The common part of all joins on segments: their sides, the output of a batch, and snapshots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from endmark.operators.stream_join.admit import admit
from endmark.operators.stream_join.announce_patterns import PatternAnnouncer, oldest_live
from endmark.operators.stream_join.pattern_reports import Report
from endmark.operators.stream_join.presets import Policy, Propagation
from endmark.operators.stream_join.spill import OwedResults, Spiller
from endmark.state import codec, manifest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from endmark.expressions.condition_failures import Failures
    from endmark.expressions.derived_times import TimeBound
    from endmark.operators.stream_batch import StreamBatch
    from endmark.operators.stream_join.admit import Admitted, Violation
    from endmark.operators.stream_join.side import SideState
    from endmark.punctuation.punctuation import Punctuation
    from endmark.state.keys import Keys, Share
    from endmark.state.search import Bools
    from endmark.state.segment_list import SegmentList
    from endmark.state.store import SegmentStore


@dataclass
class BatchOutput:
    """The output of one batch beside its results.

    Args:
        violations: rows that were not joined.
        bystanders: the bystanders of the input that are no violations, by side.
        admitted: the rows of the input that are joined, by side.
        announced: the keys that no later result has, in order of code, by the names that all sides share.
            Each is announced once. `None` without any.
        announced_by: the same keys by what completed them, `closed` or `expired`.
        widened: a pattern has closed further keys. All keys are announced for which `SegmentJoin.final` is
            true.
        patterns: the statements of this bucket about patterns to announce.
        duplicates: the number of records that are dropped as duplicates, by side.
        counts: numbers by (metric, side or reason), with names from the catalogue of metrics.
    """

    violations: list[Violation] = field(default_factory=list)
    bystanders: dict[str, pa.RecordBatch] = field(default_factory=dict)
    admitted: dict[str, pa.RecordBatch] = field(default_factory=dict)
    announced: pa.RecordBatch | None = None
    announced_by: dict[str, pa.RecordBatch] = field(default_factory=dict)
    widened: bool = False
    patterns: Report = field(default_factory=Report)
    duplicates: Counter[str] = field(default_factory=Counter)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)


class SegmentJoin(ABC):
    """A join on one bucket's share of the keys.

    Give each batch to `process`, then read `output`. After a restart, a join with the same sides takes the
    bytes of `snapshot`.

    Attributes:
        sides: the state of all inputs, in their order.
        key: the key, by the names that all sides share.
        shown: the sides whose columns results have.
        output: the output of the last batch.
        failures: the candidates on which the residual condition failed since this object was made.
        spiller: knows the number of the batch and the owed results.
        notes: JSON values of the caller, which a snapshot keeps.

    Args:
        sides: the state of all inputs, in their order.
        shown: the sides whose columns results have.
        probe: makes the results that spilled rows are owed.
        policy: the treatment of state and punctuations.
        failures: counts the candidates on which the residual condition fails.
        store: keeps the state.
        restored: a snapshot of the same join; `None` to begin without state.
    """

    def __init__(
        self,
        sides: Sequence[SideState],
        shown: Sequence[SideState],
        probe: OwedResults,
        policy: Policy,
        failures: Failures,
        store: SegmentStore,
        restored: bytes | None,
    ) -> None:
        self.sides = sides
        self.key = sides[0].key
        self.shown = shown
        self.output = BatchOutput()
        self.failures = failures
        self.spiller = Spiller(sides, probe, policy.memory)
        self.notes: dict[str, Any] = {}
        self._policy = policy
        self._patterns = PatternAnnouncer(sides, shown, early=policy.propagate is Propagation.EARLY)
        self._profile = store.profile
        if restored is not None:
            notes = manifest.load(restored, self._lists())
            self.notes = notes["$caller"]
            self.spiller.batch_number = notes["$batch_number"]
            for side in sides:
                side.restore(notes[side.spec.name])

    def _lists(self) -> dict[str, SegmentList]:
        return {name: segments for side in self.sides for name, segments in side.lists().items()}

    def snapshot(self) -> bytes:
        """Return the state for `restored`, without the segments."""
        notes: dict[str, Any] = {side.spec.name: side.snapshot() for side in self.sides}
        notes |= {"$batch_number": self.spiller.batch_number, "$caller": self.notes}
        return manifest.save(self._lists(), notes)

    def keep(self, share: Share) -> None:
        """Drop what belongs to other buckets. Call it before the first batch with this state."""
        for side in self.sides:
            side.keep(share)

    def process(self, *batches: StreamBatch) -> Iterator[pa.RecordBatch]:
        """Join one batch of each input, in their order: update the state, and yield results in pieces.

        Results have the columns of the sides that are shown, in their order. `output` is complete once the
        iterator is exhausted.
        """
        self.output = BatchOutput()
        with self._profile.phase("purge"):
            yield from self._counted(self._process(batches))

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Yield the results that spilled rows are owed. Call it after `process`."""
        yield from self._counted(self.spiller.catch_up())
        self._maintain()

    def _admit(self, batches: Sequence[StreamBatch]) -> list[Admitted]:
        """Admit one batch of each input, and put violations, bystanders and duplicates into `output`."""
        admitted = [admit(side, batch) for side, batch in zip(self.sides, batches, strict=True)]
        for side, each in zip(self.sides, admitted, strict=True):
            self.output.violations += each.violations
            self.output.duplicates[side.spec.name] += each.duplicates
            if each.complete is not None:
                self.output.admitted[side.spec.name] = each.complete
            if each.bystanders is not None:
                self.output.bystanders[side.spec.name] = each.bystanders
        return admitted

    def _counted(self, results: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for piece in results:
            self.output.counts["join_results_total", ""] += piece.num_rows
            yield piece

    @property
    def oldest_to_come(self) -> int:
        """The least event time (µs) of the first side's row in any later result; `NEVER` without a bound.

        A row of the first side is in state, or it enters later and is then no older than progress. Read it
        between two batches.
        """
        first = self.sides[0]
        return first.rows.oldest(first.progress)

    def times(self) -> dict[str, TimeBound]:
        """Return the bounds below which no later result has a derived time, by its name in results.

        Call it between two batches. A rule by which no pattern is announced has no bounds.
        """
        if self._policy.propagate is not Propagation.EARLY:
            return {}
        found: dict[str, TimeBound] = {}
        for side in self.sides:
            if side.spec.times is not None:
                others = (other for other in self.sides if other is not side)
                found |= side.spec.times.bounds(oldest_live(side, others))
        return found

    def expect(self, side: SideState, promises: Sequence[Punctuation]) -> None:
        """Hold back the patterns that later promises will complete. Call it after `process`.

        Args:
            side: the side of the promises.
            promises: promises that have not entered the join, since rows before them wait for a lookup.
        """
        self.output.patterns.waiting += self._patterns.to_come(side, promises)

    @abstractmethod
    def final(self, keys: Keys) -> Bools:
        """Return a mask of the keys that are announced, so no later result has them.

        Call it between two batches.
        """

    @abstractmethod
    def _process(self, batches: Sequence[StreamBatch]) -> Iterator[pa.RecordBatch]:
        """Join one batch of each input, with the fields of `output` except for the number of results."""

    def _note_announced(self, announced: Mapping[str, Sequence[pa.RecordBatch]]) -> None:
        """Put the keys that a batch announces into `output`, given by what completed them."""
        for reason, pieces in announced.items():
            filled = [piece for piece in pieces if piece.num_rows]
            if filled:
                self.output.announced_by[reason] = codec.concat(filled)
        for reason, keys in self.output.announced_by.items():
            self.output.counts["propagated_punctuations_total", reason] += keys.num_rows
        if self.output.announced_by:
            announced_keys = codec.concat(list(self.output.announced_by.values()))
            self.output.announced = self.key.sorted(announced_keys)

    def _maintain(self) -> None:
        progress = min(side.progress for side in self.sides if not side.spec.ended)
        for side in self.sides:
            side.forget(progress)
            side.maintain(self.spiller.barriers(side))
