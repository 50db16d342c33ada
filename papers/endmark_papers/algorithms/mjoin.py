"""MJoin: a join of two streams whose policies follow from their punctuations and declared constraints.

Definition: objects wait in a queue per side. A stream scheduler picks the queue, a tuple scheduler the row. A
row probes the other side's state. It is then stored, or dropped if no row to come can join it. Rows are
useless once the other side has closed their key, by a punctuation or by a declared constraint. State beyond
the memory goes to disk, and is joined while the inputs pause or when they end.

Paper: MJoin (WPI; Ding, Rundensteiner, Heineman), sections 4 and 5. The multi-way MJoin of VLDB'03 is another
algorithm, hence the name `MetadataJoin`.

Deviations: a constraint is taken as the punctuations that it implies. One-to-many means that a left row
closes its key on the left. Clustered means that a new key closes the one before. Ordered means that a key
closes all keys before it in that order. So 1-NP, 1-NC and many-to-many with punctuations from both sides are
one algorithm, in which a B tuple is also removed after its only match. Data that breaks a constraint is a
`Violation` like any other. A value is announced when both sides have closed it and none of its pairs is owed;
for 1-NP this is the paper's early propagation. The purge buffer replaces figure 7's test for a disk part.
Hash buckets are keyed, so a probe looks at rows of its key only.

Complexity: a row costs its partners. A purge scans the index of the side that it purges. A write looks for
the fullest bucket. The memory-disk and clean-up stages read a disk part once for all rows in debt to it.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import cast

from endmark.punctuation.pattern import Equals, Pattern, Value
from endmark_papers.algorithms.contract import (
    Announced,
    Closing,
    Element,
    Output,
    Result,
    Row,
    Side,
    Violation,
)
from endmark_papers.algorithms.mjoin_inlet import Inlet
from endmark_papers.algorithms.mjoin_options import MJoinOptions, TupleScheduling
from endmark_papers.algorithms.mjoin_scheduling import scheduler
from endmark_papers.algorithms.mjoin_stages import clean_up, memory_disk
from endmark_papers.algorithms.mjoin_state import MJoinCounters, SideState, Stored


class MetadataJoin:
    """A join of two streams in three stages, driven by punctuations and constraints.

    Rows in the queues are input and not state, so they are neither counted nor `live`. `process` empties the
    queues after every element. The schedulers have a choice only if several elements are given to `offer`
    before `work` is called.
    """

    def __init__(self, options: MJoinOptions | None = None) -> None:
        self.options = options or MJoinOptions()
        self.counters = MJoinCounters()
        self._inlets = {side: Inlet(self.options.arrival(side), self.options.domain) for side in Side}
        self._states = {side: SideState(self.options.buckets, self.counters) for side in Side}
        self._scheduler = scheduler(self.options)
        self._serving = Side.LEFT
        self._joined: Row | None = None
        """The row processed last, if it found a partner."""
        self._unpurged = dict.fromkeys(Side, 0)
        self._due: list[Pattern] = []
        """Patterns that both sides have closed and that are not announced yet."""
        self._clock = 0

    def process(self, element: Element) -> list[Output]:
        self.offer(element)
        return self.work()

    def offer(self, element: Element) -> None:
        """Put an element into the queue of its side."""
        self._inlets[element.side].queue.append(element)

    def work(self, steps: int | None = None) -> list[Output]:
        """Run the in-memory stage until `steps` objects are taken from the queues, or until both are empty.

        With `None`, the number of objects has no limit.
        """
        outputs: list[Output] = []
        while steps != 0 and (side := self._next_side()) is not None:
            outputs += self._step(side)
            steps = None if steps is None else steps - 1
        return outputs

    def idle(self) -> list[Output]:
        """Run the in-memory stage to its end, then purge, then run the memory-disk stage.

        Empty queues are an occasion to purge.
        """
        outputs = self.work()
        self._purge()
        for side in Side:
            mine, theirs = self._states[side], self._states[side.other]
            pairs = memory_disk(mine, theirs, self._inlets[side].spent, self.counters)
            outputs += self._results((one.row, other.row) for one, other in pairs)
        return outputs + self._propagate()

    def finish(self) -> list[Output]:
        """Run all stages to their end; nothing is held afterwards."""
        outputs = self.idle()
        pairs = clean_up(self._states[Side.LEFT], self._states[Side.RIGHT], self.counters)
        outputs += self._results((one.row, other.row) for one, other in pairs)
        for state in self._states.values():
            state.clear()
        return outputs + self._propagate()

    def chain(self, row: Row) -> int:
        """Return the rows that a probe compares if each bucket's memory is one chain without keys."""
        return sum(map(len, self._states[row.side.other].of(row.key).memory.values()))

    def live(self) -> Iterator[Row]:
        for side in Side:
            yield from self._inlets[side].pool
            yield from self._states[side]

    # Scheduling

    def _next_side(self) -> Side | None:
        """Return the side of the next object; `None` if both queues are empty.

        After a row that found partners, the rest of its cluster comes first (section 5.4).
        """
        ready = [side for side in Side if self._inlets[side].queue]
        if not ready:
            return None
        if self._joined and self._inlets[self._joined.side].continues(self._joined):
            side = self._joined.side
        else:
            side = self._scheduler.choose() if len(ready) == len(Side) else ready[0]
        self._scheduler.took(side)
        return side

    def _step(self, side: Side) -> list[Output]:
        """Take one object and do all that it causes."""
        outputs: list[Output] = []
        if side is not self._serving:
            self._inlets[self._serving].want_nothing()  # stream scheduling overrides tuple scheduling
            outputs += self._drain(self._serving)
            self._serving = side
        outputs += self._retrieve(side)
        if self._inlets[side].sequential:
            outputs += self._drain(side)
        return outputs + self._propagate()

    def _retrieve(self, side: Side) -> list[Output]:
        inlet = self._inlets[side]
        element = inlet.queue.popleft()
        if isinstance(element, Closing):
            self._punctuate(side, element.pattern)
            return []
        if inlet.has_closed(element.key):
            self.counters.violations += 1
            return [Violation(element)]
        for pattern in inlet.admit(element):
            self._punctuate(side, pattern)
        if self.options.one_to_many and side is Side.LEFT:
            self._close(side, Equals(cast("Value", element.key)))
        if inlet.prefers(element):
            return self._join(element)
        inlet.pool.append(element)
        self.counters.hold(1)
        self.counters.state_nodes += 1
        return []

    def _drain(self, side: Side) -> list[Output]:
        """Process the waiting pool in order of arrival."""
        pool, outputs = self._inlets[side].pool, list[Output]()
        while pool:
            self.counters.hold(-1)
            self.counters.state_nodes -= 1
            outputs += self._join(pool.popleft())
        return outputs

    # Rows

    def _join(self, row: Row) -> list[Output]:
        """Probe with a row, purge what that makes useless, and store the row unless it is useless itself."""
        mine, theirs = self._inlets[row.side], self._states[row.side.other]
        bucket = theirs.of(row.key)
        partners = bucket.memory.get(row.key, ())
        self.counters.probes += len(partners)
        results = self._results((row, partner.row) for partner in partners)
        self._joined = row if results else None
        mine.processed(row)
        if mine.spent(row.key):
            theirs.retire(row.key, cancel=self._has_one_partner(row.side.other))
        complete = bool(results) and self._has_one_partner(row.side)
        self._store(Stored(row, self._tick(), in_debt=bool(bucket.disk) and not complete))
        return results

    def _store(self, stored: Stored) -> None:
        side = stored.row.side
        useless = self._inlets[side.other].spent(stored.row.key)
        if useless and not stored.in_debt:
            self.counters.dropped += 1
            return
        self._make_room()
        self._states[side].insert(stored, buffered=useless)
        self.counters.right_inserts += side is Side.RIGHT

    def _has_one_partner(self, side: Side) -> bool:
        return self.options.one_to_many and side is Side.RIGHT

    def _make_room(self) -> None:
        """Purge if memory is full; while it is still full, write the fullest bucket to disk."""
        if self._full():
            self._purge()
        while self._full():
            state = max(self._states.values(), key=lambda state: state.fullest)
            state.write_fullest(self._tick())

    def _full(self) -> bool:
        limit = self.options.memory_rows
        return limit is not None and sum(state.resident for state in self._states.values()) >= limit

    def _results(self, pairs: Iterable[tuple[Row, Row]]) -> list[Output]:
        results: list[Output] = [Result.of(one, other) for one, other in pairs]
        self.counters.results += len(results)
        return results

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    # Punctuations

    def _punctuate(self, side: Side, pattern: Pattern) -> None:
        """Take a punctuation that was sent, or that the order of arrival implies."""
        new = self._close(side, pattern)
        if not new:
            return
        if self.options.tuple_scheduling is TupleScheduling.VALUE_ORIENTED:
            self._inlets[side.other].want(new)
        self._unpurged[side] += 1
        if sum(self._unpurged.values()) >= self.options.purge_every:
            self._purge()

    def _close(self, side: Side, pattern: Pattern) -> list[Pattern]:
        """Add a pattern to the side's punctuated range; return the parts that are new."""
        new = self._inlets[side].close(pattern)
        if self.options.propagate:
            self._due += [part for each in new for part in self._inlets[side.other].closed_part(each)]
        return new

    def _purge(self) -> None:
        """Apply the punctuations that are not yet applied to the state of the other side."""
        for side in Side:
            if self._unpurged[side]:
                self._unpurged[side] = 0
                self.counters.purge_runs += 1
                self._states[side.other].purge(self._inlets[side].spent)

    def _propagate(self) -> list[Output]:
        """Announce what is due, except where a row in a pool or in debt may still give results."""
        if not self._due:
            return []
        owing = [inlet.unprocessed for inlet in self._inlets.values()]
        owing += [state.debts for state in self._states.values()]
        held, announced = list[Pattern](), list[Output]()
        for pattern in self._due:
            if any(_matches_any(pattern, keys) for keys in owing):
                held.append(pattern)
            else:
                announced.append(Announced(pattern))
        self._due = held
        self.counters.announced += len(announced)
        return announced


def _matches_any(pattern: Pattern, keys: Collection[Hashable]) -> bool:
    if isinstance(pattern, Equals):
        return pattern.value in keys
    return any(pattern.matches(cast("Value", key)) for key in keys)
