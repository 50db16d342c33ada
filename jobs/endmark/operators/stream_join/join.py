"""The stream join on segments: it joins two streams within windows, and punctuations free its state.

Definition: two rows make a result if their keys are equal, they meet the residual condition, and the later
one is within the window of the earlier one. Rows that violate their stream's promises are not joined. An
outer join adds each row of a preserved side that has no partner, beside nulls. A semi join gives each left
row that has a partner.

Papers: PWJoin (CIKM'04, sections 3 and 4), and the papers of the other `presets`. They have inner joins only.

Deviations: a batch is processed as a whole. Its rows probe all rows that were live before the batch, and each
other. Only then do punctuations purge, since a punctuation never rules out a result of rows before it. A
closed key without live rows of its own side is announced at once. An outer row comes out when no partner can
come any more. Its row may leave the state then; a policy decides when it does (`presets`), and no result
depends on that.

Complexity of a batch of n rows: O(n log s) comparisons for each of O(log s) segments over s state rows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from endmark.operators.stream_join.admit import Violation, admit
from endmark.operators.stream_join.announce import (
    CLOSED,
    EXPIRED,
    PatternAnnouncer,
    Report,
    announceable,
    final,
    hold_back,
)
from endmark.operators.stream_join.presets import DEFAULT, Policy, Propagation
from endmark.operators.stream_join.probe import Probe
from endmark.operators.stream_join.purge import Purger
from endmark.operators.stream_join.side import SideSpec, SideState
from endmark.operators.stream_join.spill import Spiller
from endmark.state import codec, manifest
from endmark.state.segment import Segment
from endmark.types import JoinType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from endmark.condition import Condition
    from endmark.condition_failures import Failures
    from endmark.operators.stream_batch import StreamBatch
    from endmark.operators.stream_join.announce import ClosedKeysBySide
    from endmark.punctuation.punctuation import Punctuation
    from endmark.state.keys import Keys
    from endmark.state.search import Bools
    from endmark.state.segment_list import SegmentList
    from endmark.state.store import SegmentStore


@dataclass
class BatchOutput:
    """The output of one batch beside its results.

    Args:
        violations: rows that were not joined.
        bystanders: the bystanders of the input that are no violations, by side.
        announced: the keys that no later result has, in order of code, by the names that both sides share.
            Each is announced once. `None` without any.
        announced_by: the same keys by what completed them, `closed` or `expired`.
        widened: a pattern has closed further keys. All keys are announced for which `StreamJoin.final` is
            true.
        patterns: the statements of this bucket about patterns to announce.
        counts: numbers by (metric, side or reason), with names from the catalogue of metrics.
    """

    violations: list[Violation] = field(default_factory=list)
    bystanders: dict[str, pa.RecordBatch] = field(default_factory=dict)
    announced: pa.RecordBatch | None = None
    announced_by: dict[str, pa.RecordBatch] = field(default_factory=dict)
    widened: bool = False
    patterns: Report = field(default_factory=Report)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)


class _News(NamedTuple):
    """The rows of one side in a batch, with the newly closed keys and key promises of the other side."""

    side: SideState
    arrived: Segment | None
    opposite: SideState
    closed_keys: pa.RecordBatch | None
    key_promises: Sequence[Punctuation]


class StreamJoin:
    """The join of two streams on one bucket's share of the keys.

    Give each batch to `process`, then read `output`. After a restart, `restored` takes the bytes of
    `snapshot`.

    Attributes:
        output: the output of the last batch.
        shown: the sides whose columns results have: the left one of a semi join, and no side that has ended.
        notes: JSON values of the caller, which a snapshot keeps.

    Args:
        left, right: the inputs.
        store: keeps the state.
        kind: decides which rows become results.
        residual: the condition that pairs of equal key must meet beside the window; `None` is always met.
        policy: the treatment of state and punctuations.
        buckets: the number of buckets that share the keys.
        restored: a snapshot of the same join; `None` to begin without state.
    """

    def __init__(
        self,
        left: SideSpec,
        right: SideSpec,
        store: SegmentStore,
        *,
        kind: JoinType = JoinType.INNER,
        residual: Condition | None = None,
        policy: Policy = DEFAULT,
        buckets: int = 1,
        restored: bytes | None = None,
    ) -> None:
        self.left = SideState(left, store, buckets=buckets, preserved=kind.keeps_left)
        self.right = SideState(right, store, buckets=buckets, preserved=kind.keeps_right)
        self._sides = (self.left, self.right)
        self._profile = store.profile
        self._probe = Probe(self.left, self.right, kind, residual)
        self._policy = policy
        self._spiller = Spiller(self._sides, self._probe, policy.memory)
        self._purger = Purger(self.left, self.right, policy, self._spiller)
        early = policy.propagate is Propagation.EARLY
        sides = self._sides[:1] if kind is JoinType.SEMI else self._sides
        self.shown = [side for side in sides if not side.spec.ended]
        self._patterns = PatternAnnouncer(self._sides, self.shown, early=early)
        self.output = BatchOutput()
        self.notes: dict[str, Any] = {}
        if restored is not None:
            notes = manifest.load(restored, self._lists())
            self.notes = notes["$caller"]
            self._spiller.batch_number = notes["$batch_number"]
            for side in self._sides:
                side.restore(notes[side.spec.name])

    def _lists(self) -> dict[str, SegmentList]:
        return self.left.lists() | self.right.lists()

    def snapshot(self) -> bytes:
        """Return the state for `restored`, without the segments."""
        notes: dict[str, Any] = {side.spec.name: side.snapshot() for side in self._sides}
        notes |= {"$batch_number": self._spiller.batch_number, "$caller": self.notes}
        return manifest.save(self._lists(), notes)

    @property
    def spiller(self) -> Spiller:
        """The spiller, which knows the number of the batch and the owed results."""
        return self._spiller

    @property
    def failures(self) -> Failures:
        """The pairs on which the residual condition failed since this object was made."""
        return self._probe.failures

    def final(self, keys: Keys) -> Bools:
        """Return a mask of the keys that are announced, so no later result has them.

        Call it between two batches.
        """
        return final(self.left, self.right, keys, self._policy.propagate)

    def process(self, left: StreamBatch, right: StreamBatch) -> Iterator[pa.RecordBatch]:
        """Join one batch: update the state, and yield results in pieces, with left columns before right ones.

        `output` is complete once the iterator is exhausted.
        """
        self.output = BatchOutput()
        self._purger.counts = self.output.counts
        with self._profile.phase("purge"):
            for piece in self._process(left, right):
                self.output.counts["join_results_total", ""] += piece.num_rows
                yield piece

    def _process(self, left: StreamBatch, right: StreamBatch) -> Iterator[pa.RecordBatch]:
        admitted = admit(self.left, left), admit(self.right, right)
        self.output.violations += [*admitted[0].violations, *admitted[1].violations]
        self.output.bystanders = {
            side.spec.name: each.bystanders
            for side, each in zip(self._sides, admitted, strict=True)
            if each.bystanders is not None
        }
        left, right = admitted[0].batch, admitted[1].batch
        arrived = admitted[0].rows, admitted[1].rows
        self._spiller.begin(arrived)
        with self._profile.phase("probe"):
            yield from self._probe.results(*arrived)
        left_closed_keys, left_key_promises = self.left.take(left)
        right_closed_keys, right_key_promises = self.right.take(right)
        closed_keys = left_closed_keys, right_closed_keys
        news = (
            _News(self.left, arrived[0], self.right, right_closed_keys, right_key_promises),
            _News(self.right, arrived[1], self.left, left_closed_keys, left_key_promises),
        )
        widened = bool(left_key_promises or right_key_promises)
        pause = arrived[0] is None and arrived[1] is None
        yield from self._take_in(news, pause=pause)
        self.left.advance(left)
        self.right.advance(right)
        horizons = self.left.horizon(self.right.progress), self.right.horizon(self.left.progress)
        self._patterns.begin((left.promises, right.promises))
        self._patterns.release(CLOSED, closed_keys)
        yield from self._make_room(news, horizons, pause=pause)
        self._patterns.release(EXPIRED, closed_keys)
        self.output.patterns = self._patterns.report()
        self._spend(right_closed_keys)
        self.left.spent.expire(horizons[0])
        self._announce(closed_keys, horizons)
        rule = self._policy.propagate
        if left_key_promises:
            hold_back(self.left, self.right, rule)
        if right_key_promises:
            hold_back(self.right, self.left, rule)
        self.output.widened = widened and rule is not Propagation.NEVER
        self._maintain()
        self._spiller.spill()

    def _take_in(self, news: tuple[_News, _News], *, pause: bool) -> Iterator[pa.RecordBatch]:
        """Purge the rows of closed keys, and put the rows of the batch into state."""
        for side, _, opposite, closed_keys, key_promises in reversed(news):
            yield from self._purger.close(side, opposite, closed_keys, key_promises, pause=pause)
        for side, arrived, opposite, closed_keys, _ in news:
            if arrived is not None:
                yield from self._purger.insert(side, arrived, opposite, closed_keys)
        self._spiller.inserted()
        for side, arrived, opposite, closed_keys, key_promises in news:
            came = arrived is not None and arrived.live > 0
            yield from self._purger.release(side, opposite, closed_keys, key_promises, arrived=came)

    def _make_room(
        self, news: tuple[_News, _News], horizons: tuple[int, int], *, pause: bool
    ) -> Iterator[pa.RecordBatch]:
        """Drop rows that left their window, catch up with spilled rows, and purge if memory is short."""
        for side, horizon in zip(self._sides, horizons, strict=True):
            yield from self._purger.expire(side, horizon)
        if self._spiller.is_due(pause=pause):
            yield from self._spiller.catch_up()
        if self._spiller.is_over_budget:
            for side, _, opposite, _, _ in news:
                yield from self._purger.close(side, opposite, None, (), pause=True)

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Yield the results that spilled rows are owed. Call it after `process`."""
        self._probe.spent = []
        for piece in self._spiller.catch_up():
            self.output.counts["join_results_total", ""] += piece.num_rows
            yield piece
        self._spend(None)
        self._patterns.release(CLOSED)
        self.output.patterns = self._patterns.report()
        self._maintain()

    def expect(self, side: SideState, promises: Sequence[Punctuation]) -> None:
        """Hold back the patterns that later promises will complete. Call it after `process`.

        Args:
            side: the side of the promises.
            promises: promises that have not entered the join, since rows before them wait for a lookup.
        """
        self.output.patterns.waiting += self._patterns.to_come(side, promises)

    def _maintain(self) -> None:
        for side in self._sides:
            side.maintain(self._spiller.barriers(side))

    def _spend(self, closed_keys: pa.RecordBatch | None) -> None:
        """Remember key and time of left rows that a semi join has put out, if they can hold back a key."""
        if not self._probe.spent:
            return
        traces = self.left.traces(self._probe.spent)
        self._purger.count("join_spent_rows_total", self.left, traces.num_rows)
        if self._policy.propagate is not Propagation.EARLY:
            return
        over = self.right.has_closed(self.left.key.keys(traces), closed_keys)
        self.left.spent.append(traces.filter(pa.array(~over)))

    def _announce(self, closed_keys: ClosedKeysBySide, horizons: tuple[int, int]) -> None:
        found = announceable(self.left, self.right, closed_keys, horizons, self._policy.propagate)
        for reason, pieces in found.items():
            filled = [piece for piece in pieces if piece.num_rows]
            if filled:
                self.output.announced_by[reason] = codec.concat(filled)
        for reason, keys in self.output.announced_by.items():
            self.output.counts["propagated_punctuations_total", reason] += keys.num_rows
        if self.output.announced_by:
            announced = codec.concat(list(self.output.announced_by.values()))
            self.output.announced = self.left.key.sorted(announced)
