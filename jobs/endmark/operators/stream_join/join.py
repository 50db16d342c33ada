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

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from endmark.operators.stream_join.announce import announceable, closed_before, final, hold_back
from endmark.operators.stream_join.pattern_reports import CLOSED, EXPIRED
from endmark.operators.stream_join.presets import DEFAULT, Policy, Propagation
from endmark.operators.stream_join.probe import Probe
from endmark.operators.stream_join.purge import Purger
from endmark.operators.stream_join.segment_join import SegmentJoin
from endmark.operators.stream_join.side import SideSpec, SideState
from endmark.state.segment import Segment
from endmark.types import JoinType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from endmark.expressions.condition import Condition
    from endmark.operators.stream_batch import StreamBatch
    from endmark.punctuation.punctuation import Punctuation
    from endmark.state.keys import Keys
    from endmark.state.search import Bools
    from endmark.state.store import SegmentStore


class _News(NamedTuple):
    """The rows of one side in a batch, with the newly closed keys and key promises of the other side."""

    side: SideState
    arrived: Segment | None
    opposite: SideState
    closed_keys: pa.RecordBatch | None
    key_promises: Sequence[Punctuation]


class StreamJoin(SegmentJoin):
    """The join of two streams on one bucket's share of the keys.

    Results show the columns of the left side of a semi join, and of no side that has ended.

    Attributes:
        left, right: the state of both inputs.

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
        self._probe = Probe(self.left, self.right, kind, residual)
        sides = self.left, self.right
        may_show = sides[:1] if kind is JoinType.SEMI else sides
        shown = [side for side in may_show if not side.spec.ended]
        super().__init__(sides, shown, self._probe, policy, self._probe.failures, store, restored)
        self._purger = Purger(self.left, self.right, policy, self.spiller)

    def final(self, keys: Keys) -> Bools:
        return final(self.left, self.right, keys, self._policy.propagate)

    def _process(self, batches: Sequence[StreamBatch]) -> Iterator[pa.RecordBatch]:
        """Join one batch of each input, in this order.

        1. Rows that break a promise are set aside. The others probe state, and each other.
        2. The sides close the keys and patterns of the batch. These purge the rows of the other side. Rows of
           the batch then enter state, unless their key is closed.
        3. Progress moves, and rows that have left their window leave state. Spilled rows get the results that
           they are owed, if it is time for that.
        4. Patterns and keys that no live row holds back are announced.

        Patterns are released behind steps 2 and 3, so that an announcement tells what completed it.
        """
        self._purger.counts = self.output.counts
        admitted = self._admit(batches)
        left, right = (each.batch for each in admitted)
        arrived = admitted[0].rows, admitted[1].rows
        self.spiller.begin(arrived)
        with self._profile.phase("probe"):
            yield from self._probe.results(*arrived)
        # Sides answer this by the state before the batch, which `take` changes.
        before = (
            closed_before(self.left, [self.right], left, [right]),
            closed_before(self.right, [self.left], right, [left]),
        )
        left_closed_keys, left_key_promises = self.left.take(left)
        right_closed_keys, right_key_promises = self.right.take(right)
        closed_keys = left_closed_keys, right_closed_keys
        news = (
            _News(self.left, arrived[0], self.right, right_closed_keys, right_key_promises),
            _News(self.right, arrived[1], self.left, left_closed_keys, left_key_promises),
        )
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
        rule = self._policy.propagate
        widened = bool(left_key_promises), bool(right_key_promises)
        found = announceable(self.left, self.right, closed_keys, before, widened, horizons, rule)
        self._note_announced(found)
        if left_key_promises:
            hold_back(self.left, self.right, rule)
        if right_key_promises:
            hold_back(self.right, self.left, rule)
        self.output.widened = any(widened) and rule is not Propagation.NEVER
        self._maintain()
        self.spiller.spill()

    def _take_in(self, news: tuple[_News, _News], *, pause: bool) -> Iterator[pa.RecordBatch]:
        """Purge the rows of closed keys, and put the rows of the batch into state."""
        for side, _, opposite, closed_keys, key_promises in reversed(news):
            yield from self._purger.close(side, opposite, closed_keys, key_promises, pause=pause)
        for side, arrived, opposite, closed_keys, _ in news:
            if arrived is not None:
                yield from self._purger.insert(side, arrived, opposite, closed_keys)
        self.spiller.inserted()
        for side, arrived, opposite, closed_keys, key_promises in news:
            came = arrived is not None and arrived.live > 0
            yield from self._purger.put_out_unmatched(side, opposite, closed_keys, key_promises, arrived=came)

    def _make_room(
        self, news: tuple[_News, _News], horizons: tuple[int, int], *, pause: bool
    ) -> Iterator[pa.RecordBatch]:
        """Drop rows that left their window, catch up with spilled rows, and purge if memory is short."""
        for side, horizon in zip(self.sides, horizons, strict=True):
            yield from self._purger.expire(side, horizon)
        if self.spiller.is_due(pause=pause):
            yield from self.spiller.catch_up()
        if self.spiller.is_over_budget:
            for side, _, opposite, _, _ in news:
                yield from self._purger.close(side, opposite, None, (), pause=True)

    def drain(self) -> Iterator[pa.RecordBatch]:
        self._probe.spent = []
        yield from super().drain()
        # The rows that a semi join has put out match patterns no longer.
        self._spend(None)
        self._patterns.release(CLOSED)
        self.output.patterns = self._patterns.report()

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
