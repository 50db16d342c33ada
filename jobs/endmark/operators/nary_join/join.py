"""The n-ary join on segments: it joins any number of streams on one key, and stores no intermediate results.

Definition: a result is one row of each side. Its rows have equal keys, and of every two of them the later one
is within the window of the earlier one. Rows that violate their stream's promises are not joined. Closed keys
and progress free state by the rules of `purge`, and complete keys by those of `announce`.

Paper: PWJoin (CIKM'04), section 7, names the join of n streams as future work, and of it the n - 1 probes.
The rules are those of our literal reference, `endmark_papers.algorithms.pwjoin_nary`.

Deviations: a batch is processed as a whole, like a batch of the stream join. Sides need not be in step: each
has its own progress. Outer and semi joins have two sides, and a condition on results is a step behind the
join. If keys are announced as soon as possible, purging does not wait for several punctuations.

Complexity of a batch of m rows with n sides of s state rows each: O(n m log s) comparisons for each of
O(log s) segments, and at most n - 1 steps for each result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from endmark.errors import ConfigError
from endmark.operators.nary_join.announce import KeyAnnouncer
from endmark.operators.nary_join.probe import NaryProbe
from endmark.operators.nary_join.purge import NaryPurger
from endmark.operators.stream_join.admit import admit
from endmark.operators.stream_join.announce import CLOSED, EXPIRED, PatternAnnouncer
from endmark.operators.stream_join.join import BatchOutput
from endmark.operators.stream_join.presets import DEFAULT, Policy, Propagation
from endmark.operators.stream_join.side import SideSpec, SideState
from endmark.operators.stream_join.spill import Spiller
from endmark.state import codec, manifest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from endmark.operators.stream_batch import StreamBatch
    from endmark.punctuation.punctuation import Punctuation
    from endmark.state.keys import Keys
    from endmark.state.search import Bools
    from endmark.state.segment_list import SegmentList
    from endmark.state.store import SegmentStore


class NaryJoin:
    """The inner join of several streams on one bucket's share of the keys.

    Give each batch to `process`, then read `output`. After a restart, `restored` takes the bytes of
    `snapshot`.

    Attributes:
        sides: the state of all inputs, in their order.
        output: the output of the last batch.
        notes: JSON values of the caller, which a snapshot keeps.

    Args:
        inputs: the inputs, two or more, with keys of the same types. Results have their columns in this
            order.
        store: keeps the state.
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
        policy: Policy = DEFAULT,
        buckets: int = 1,
        restored: bytes | None = None,
    ) -> None:
        names = [spec.name for spec in inputs]
        if len(names) < 2 or len(set(names)) < len(names):
            raise ConfigError(f"a join needs two or more inputs of different names, not: {', '.join(names)}")
        self.sides = [SideState(spec, store, buckets=buckets) for spec in inputs]
        self._profile = store.profile
        self._key = self.sides[0].key
        self._policy = policy
        self._probe = NaryProbe(self.sides)
        self._spiller = Spiller(self.sides, self._probe, policy.memory)
        self._purger = NaryPurger(self.sides, policy, self._spiller)
        self._announcer = KeyAnnouncer(self.sides, store, policy.propagate)
        early = policy.propagate is Propagation.EARLY
        self._patterns = PatternAnnouncer(self.sides, self.sides, early=early)
        self.output = BatchOutput()
        self.notes: dict[str, Any] = {}
        if restored is not None:
            notes = manifest.load(restored, self._lists())
            self.notes = notes["$caller"]
            self._spiller.batch_number = notes["$batch_number"]
            for side in self.sides:
                side.restore(notes[side.spec.name])

    def _lists(self) -> dict[str, SegmentList]:
        lists = {"$pending_keys": self._announcer.pending}
        for side in self.sides:
            lists |= side.lists()
        return lists

    def snapshot(self) -> bytes:
        """Return the state for `restored`, without the segments."""
        notes: dict[str, Any] = {side.spec.name: side.snapshot() for side in self.sides}
        notes |= {"$batch_number": self._spiller.batch_number, "$caller": self.notes}
        return manifest.save(self._lists(), notes)

    @property
    def spiller(self) -> Spiller:
        """The spiller, which knows the number of the batch and the owed results."""
        return self._spiller

    @property
    def pending_keys(self) -> SegmentList:
        """The closed keys that are not announced yet, by the names that all sides share."""
        return self._announcer.pending

    def final(self, keys: Keys) -> Bools:
        """Return a mask of the keys that are announced, so no later result has them.

        Call it between two batches.
        """
        return self._announcer.final(keys)

    def process(self, batches: Sequence[StreamBatch]) -> Iterator[pa.RecordBatch]:
        """Join one batch of all inputs, in their order: update the state, and yield results in pieces.

        `output` is complete once the iterator is exhausted.
        """
        self.output = BatchOutput()
        self._purger.counts = self.output.counts
        with self._profile.phase("purge"):
            for piece in self._process(batches):
                self.output.counts["join_results_total", ""] += piece.num_rows
                yield piece

    def _process(self, batches: Sequence[StreamBatch]) -> Iterator[pa.RecordBatch]:
        admitted = [admit(side, batch) for side, batch in zip(self.sides, batches, strict=True)]
        for side, each in zip(self.sides, admitted, strict=True):
            self.output.violations += each.violations
            if each.bystanders is not None:
                self.output.bystanders[side.spec.name] = each.bystanders
        batches, arrived = [each.batch for each in admitted], [each.rows for each in admitted]
        self._spiller.begin(arrived)
        with self._profile.phase("probe"):
            yield from self._probe.results(arrived)
        taken = [side.take(batch) for side, batch in zip(self.sides, batches, strict=True)]
        closed_keys, key_promises = [keys for keys, _ in taken], [promises for _, promises in taken]
        self._announcer.close(closed_keys)
        pause = all(rows is None for rows in arrived)
        self._purger.gone = []
        yield from self._purger.close(arrived, closed_keys, key_promises, pause=pause)
        announced = {CLOSED: self._announcer.closed(key_promises, self._purger.gone)}
        self._patterns.begin([batch.promises for batch in batches])
        self._patterns.release(CLOSED)
        before = self._purger.horizons()
        for side, batch in zip(self.sides, batches, strict=True):
            side.advance(batch)
        self._purger.gone = []
        yield from self._purger.expire(before, self._purger.horizons())
        yield from self._make_room(pause=pause)
        announced[EXPIRED] = self._announcer.expired(self._purger.gone)
        self._patterns.release(EXPIRED)
        self.output.patterns = self._patterns.report()
        self._announcer.hold_back(key_promises)
        self._note(announced, widened=any(key_promises))
        self._maintain()
        self._spiller.spill()

    def _make_room(self, *, pause: bool) -> Iterator[pa.RecordBatch]:
        """Catch up with spilled rows, and purge if memory is short."""
        if self._spiller.is_due(pause=pause):
            yield from self._spiller.catch_up()
        if self._spiller.is_over_budget:
            nothing = [None] * len(self.sides)
            yield from self._purger.close(nothing, nothing, [()] * len(self.sides), pause=True)

    def _note(self, announced: dict[str, pa.RecordBatch | None], *, widened: bool) -> None:
        for reason, keys in announced.items():
            if keys is not None and keys.num_rows:
                self.output.announced_by[reason] = keys
                self.output.counts["propagated_punctuations_total", reason] += keys.num_rows
        if self.output.announced_by:
            found = codec.concat(list(self.output.announced_by.values()))
            self.output.announced = self._key.sorted(found)
        self.output.widened = widened and self._policy.propagate is not Propagation.NEVER

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Yield the results that spilled rows are owed. Call it after `process`."""
        for piece in self._spiller.catch_up():
            self.output.counts["join_results_total", ""] += piece.num_rows
            yield piece
        self._maintain()

    def expect(self, side: SideState, promises: Sequence[Punctuation]) -> None:
        """Hold back the patterns that later promises will complete. Call it after `process`.

        Args:
            side: the side of the promises.
            promises: promises that have not entered the join, since rows before them wait for a lookup.
        """
        self.output.patterns.waiting += self._patterns.to_come(side, promises)

    def _maintain(self) -> None:
        for side in self.sides:
            side.maintain(self._spiller.barriers(side))
        self._announcer.pending.maintain()
