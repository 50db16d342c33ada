"""The n-ary join on segments: it joins any number of streams on one key, and stores no intermediate results.

Definition: a result is one row of each side. Its rows have equal keys, and of every two of them the later one
is within the window of the earlier one. Rows that violate their stream's promises are not joined. Closed keys
and progress free state by the rules of `purge`, and complete keys by those of `announce`.

Paper: PWJoin (CIKM'04), section 7, names the join of n streams as future work, and of it the n - 1 probes.
The rules are those of our literal reference, `endmark_papers.algorithms.pwjoin_nary`.

Deviations: a batch is processed as a whole, like a batch of the stream join. Sides need not be in step: each
has its own progress. Outer and semi joins have two sides. Results may have to meet a condition, which frees
no state. If keys are announced as soon as possible, purging does not wait for several punctuations.

Complexity of a batch of m rows with n sides of s state rows each: O(n m log s) comparisons for each of
O(log s) segments, and at most n - 1 steps for each result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.errors import ConfigError
from endmark.operators.nary_join.announce import KeyAnnouncer
from endmark.operators.nary_join.probe import NaryProbe
from endmark.operators.nary_join.purge import NaryPurger
from endmark.operators.stream_join.pattern_reports import CLOSED, EXPIRED
from endmark.operators.stream_join.presets import DEFAULT, Policy, Propagation
from endmark.operators.stream_join.segment_join import SegmentJoin
from endmark.operators.stream_join.side import SideSpec, SideState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from endmark.expressions.condition import Condition
    from endmark.operators.stream_batch import StreamBatch
    from endmark.state.keys import Keys
    from endmark.state.search import Bools
    from endmark.state.store import SegmentStore


class NaryJoin(SegmentJoin):
    """The inner join of several streams on one bucket's share of the keys.

    Args:
        inputs: the inputs, two or more, with keys of the same types. Results have their columns in this
            order.
        store: keeps the state.
        residual: the condition that results must meet beside key and windows; `None` is always met.
        policy: the treatment of state and punctuations, one of those that `presets.policy` returns.
        buckets: the number of buckets that share the keys.
        restored: a snapshot of the same join; `None` to begin without state.

    Raises:
        ConfigError: there are fewer than two inputs, or two have the same name.
    """

    def __init__(
        self,
        inputs: Sequence[SideSpec],
        store: SegmentStore,
        *,
        residual: Condition | None = None,
        policy: Policy = DEFAULT,
        buckets: int = 1,
        restored: bytes | None = None,
    ) -> None:
        names = [spec.name for spec in inputs]
        if len(names) < 2 or len(set(names)) < len(names):
            raise ConfigError(f"a join needs two or more inputs of different names, not: {', '.join(names)}")
        sides = [SideState(spec, store, buckets=buckets) for spec in inputs]
        self._probe = NaryProbe(sides, residual)
        super().__init__(sides, sides, self._probe, policy, self._probe.failures, store, restored)
        self._purger = NaryPurger(sides, policy, self.spiller)
        self._announcer = KeyAnnouncer(sides, policy.propagate)

    def final(self, keys: Keys) -> Bools:
        return self._announcer.final(keys)

    def _process(self, batches: Sequence[StreamBatch]) -> Iterator[pa.RecordBatch]:
        """Join one batch of each input, in the order of `StreamJoin._process`."""
        self._purger.counts = self.output.counts
        admitted = self._admit(batches)
        batches, arrived = [each.batch for each in admitted], [each.rows for each in admitted]
        self.spiller.begin(arrived)
        with self._profile.phase("probe"):
            yield from self._probe.results(arrived)
        before = self._announcer.closed_before(batches)
        taken = [side.take(batch) for side, batch in zip(self.sides, batches, strict=True)]
        closed_keys, key_promises = [keys for keys, _ in taken], [promises for _, promises in taken]
        self._announcer.close(closed_keys, before)
        pause = all(rows is None for rows in arrived)
        self._purger.gone = []
        yield from self._purger.close(arrived, closed_keys, key_promises, pause=pause)
        announced = {CLOSED: self._announcer.closed(key_promises, self._purger.gone)}
        self._patterns.begin([batch.promises for batch in batches])
        self._patterns.release(CLOSED)
        horizons = self._purger.horizons()
        for side, batch in zip(self.sides, batches, strict=True):
            side.advance(batch)
        self._purger.gone = []
        yield from self._purger.expire(horizons, self._purger.horizons())
        yield from self._make_room(pause=pause)
        announced[EXPIRED] = self._announcer.expired(self._purger.gone)
        self._patterns.release(EXPIRED)
        self.output.patterns = self._patterns.report()
        self._announcer.hold_back(key_promises)
        self._note_announced({by: [] if keys is None else [keys] for by, keys in announced.items()})
        self.output.widened = any(key_promises) and self._policy.propagate is not Propagation.NEVER
        self._maintain()
        self.spiller.spill()

    def _make_room(self, *, pause: bool) -> Iterator[pa.RecordBatch]:
        """Catch up with spilled rows, and purge if memory is short."""
        if self.spiller.is_due(pause=pause):
            yield from self.spiller.catch_up()
        if self.spiller.is_over_budget:
            nothing = [None] * len(self.sides)
            yield from self._purger.close(nothing, nothing, [()] * len(self.sides), pause=True)
