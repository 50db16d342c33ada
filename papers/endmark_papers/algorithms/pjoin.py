"""PJoin: XJoin that purges by punctuations and announces output punctuations.

Definition: a punctuation of one side closes keys. Rows of the other side with these keys can join no arrival
any more. So an arrival of that kind is joined with memory and dropped on the fly, and rows in state are
purged: at once (eager), or when a number of punctuations have come, memory is full, or the inputs pause
(lazy). A row that may still have partners on disk waits in the purge buffer for a disk join. A value is
announced

- under `both_sides` once both sides closed it and all its results are out;
- under `count_zero` once one side closed it and no row of that side is held.

Paper: Ding, Mehta, Rundensteiner and Heineman, EDBT'04; the purge rule and `both_sides` are those of the
comparison in PWJoin (CIKM'04, section 3.1). `partitions` keeps the state.

Deviations: a disk join takes a whole partition (XJoin's second and third stage in one), since a second stage
alone would never purge a value whose rows meet only on disk. A row waits only if the other side's disk part
was written before it came and was not joined since. The punctuation index counts rows by key, not by
punctuation, so overlapping patterns need no order. Punctuations are kept for ever as ranges, to find
violations. A range is announced without the values that the rule does not allow yet; these follow one by one.
No value is announced twice. An `Anything` announces all values but null.

Complexity: a row costs the rows of its key in memory. A purge costs one access for a constant, else a scan of
the keys in memory. A disk join reads two disk parts. An announcement costs a look at every candidate.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from endmark.domain import Domain
from endmark.errors import ConfigError
from endmark.punctuation.algebra import meet
from endmark.punctuation.pattern import Anything, Between, Equals, Nothing, Pattern
from endmark.punctuation.ranges import Ranges
from endmark_papers.algorithms.contract import (
    Announced,
    Closing,
    Counters,
    Element,
    Output,
    Result,
    Row,
    Side,
    Violation,
)
from endmark_papers.algorithms.partitions import Partition, Partitions, Stored, keys_matching

Propagation = Literal["push", "pull"]
Rule = Literal["both_sides", "count_zero"]


@dataclass(slots=True)
class _Held:
    """An entry of the punctuation index: the rows of a key, wherever they are, and when the last came."""

    rows: int = 0
    newest: int = 0


class _Candidate(NamedTuple):
    """A pattern to be announced, with a side that closed it."""

    side: Side
    pattern: Pattern


class PJoin:
    """A join whose state is bounded by its inputs' punctuations, and which announces punctuations of its own.

    Args:
        memory_rows: rows that both sides together may hold in memory, with those in purge buffers; `None`: no
            limit, and nothing is spilled.
        partitions: the number of hash partitions.
        purge_every: punctuations after which state is purged; 1 is eager.
        propagate: `push` announces as soon as the rule allows, `pull` when asked and at the end.
        rule: the rule by which a value may be announced, `both_sides` or `count_zero`.
        domain: the type of the keys.

    Raises:
        ConfigError: a number is below 1, or `propagate` or `rule` is none of these.
    """

    def __init__(
        self,
        memory_rows: int | None = None,
        partitions: int = 4,
        purge_every: int = 1,
        propagate: Propagation = "push",
        rule: Rule = "both_sides",
        domain: Domain = Domain.LONG,
    ) -> None:
        if purge_every < 1:
            raise ConfigError(f"a purge needs a punctuation at least, not purge_every={purge_every}")
        if propagate not in ("push", "pull") or rule not in ("both_sides", "count_zero"):
            raise ConfigError(
                "PJoin propagates by push or pull under both_sides or count_zero, "
                f"not propagate={propagate}, rule={rule}"
            )
        self.counters = Counters()
        self._store = Partitions(partitions, memory_rows, self.counters)
        self._purge_every = purge_every
        self._push = propagate == "push"
        self._rule = rule
        self._domain = domain
        self._closed = {side: Ranges(domain) for side in Side}
        self._unpurged: list[Closing] = []
        self._index: dict[Side, dict[Hashable, _Held]] = {side: {} for side in Side}
        self._candidates: list[_Candidate] = []
        self._announced = Ranges(domain)

    def process(self, element: Element) -> list[Output]:
        outputs = self._close(element) if isinstance(element, Closing) else self._join(element)
        return self._counted(outputs)

    def idle(self) -> list[Output]:
        """Purge, then join the whole of one partition that has rows on disk: that with most rows waiting."""
        self._purge()
        due = [partition for partition in self._store if partition.due]
        results = self._disk_join(max(due, key=lambda partition: partition.waiting)) if due else []
        return self._counted([*results, *self._pushed()])

    def finish(self) -> list[Output]:
        """Purge, join all partitions that have rows on disk, and announce what the rule allows."""
        self._purge()
        due = [partition for partition in self._store if partition.due]
        results = [result for partition in due for result in self._disk_join(partition)]
        return self._counted([*results, *self._announce()])

    def pull(self) -> list[Output]:
        """Announce what the rule allows now."""
        self._purge()
        return self._counted([*self._announce()])

    def live(self) -> Iterator[Row]:
        return self._store.rows()

    def _join(self, row: Row) -> list[Output]:
        if self._is_closed(row.side, row.key):
            self.counters.violations += 1
            return [Violation(row)]
        stored, results = self._store.arrive(row)
        dead = self._is_closed(row.side.other, row.key)
        if dead and not self._store.of(row.key).owed(stored):
            self.counters.dropped += 1
            return [*results]
        outputs: list[Output] = [*results, *self._make_room()]
        self._store.keep(stored, waiting=dead)
        self._remember(stored)
        return outputs

    def _close(self, closing: Closing) -> list[Output]:
        fresh = self._closed[closing.side].add(closing.pattern)
        if not fresh:
            return []
        both = self._rule == "both_sides"
        for new in fresh:
            # A null equals nothing, so nobody misses an announcement that it is closed.
            pattern = Between() if isinstance(new, Anything) else new
            patterns = self._closed_by(closing.side.other, pattern) if both else [pattern]
            self._candidates += [_Candidate(closing.side, part) for part in patterns]
        self._unpurged.append(closing)
        if len(self._unpurged) >= self._purge_every:
            self._purge()
        return self._pushed()

    def _is_closed(self, side: Side, key: Hashable) -> bool:
        return self._closed[side].contains(key)  # type: ignore[arg-type]

    def _closed_by(self, side: Side, pattern: Pattern) -> list[Pattern]:
        """Return the part of a pattern that a side has closed."""
        closed = self._closed[side]
        if isinstance(pattern, Equals):
            return [pattern] if closed.contains(pattern.value) else []
        meets = (meet(pattern, other, self._domain) for other in closed.patterns())
        return [common for common in meets if common != Nothing()]

    def _make_room(self) -> list[Output]:
        if not self._store.full:
            return []
        self._purge()
        if self._store.full:
            self._store.flush_largest()
        return self._pushed()

    def _purge(self) -> None:
        for closing in self._unpurged:
            self._forget(self._store.close(closing.side.other, closing.pattern))
        self._unpurged.clear()

    def _disk_join(self, partition: Partition) -> list[Result]:
        results = self._store.join_whole(partition)
        for side in Side:
            self._forget(self._store.sweep(partition, side, partial(self._is_closed, side.other)))
        return results

    def _remember(self, stored: Stored) -> None:
        held = self._index[stored.row.side].setdefault(stored.row.key, _Held())
        held.rows += 1
        held.newest = stored.arrived

    def _forget(self, rows: Iterable[Row]) -> None:
        for row in rows:
            index = self._index[row.side]
            index[row.key].rows -= 1
            if not index[row.key].rows:
                del index[row.key]

    def _pushed(self) -> list[Output]:
        return [*self._announce()] if self._push else []

    def _announce(self) -> list[Announced]:
        fresh, left = list[Pattern](), list[_Candidate]()
        for side, pattern in self._candidates:
            blocked = self._blocked(side, pattern)
            left += [_Candidate(side, Equals(key)) for key in blocked]  # type: ignore[arg-type]
            fresh += [new for free in self._without(pattern, blocked) for new in self._announced.add(free)]
        self._candidates = left
        self.counters.announced += len(fresh)
        return [Announced(pattern) for pattern in fresh]

    def _blocked(self, side: Side, pattern: Pattern) -> list[Hashable]:
        """Return the keys of a candidate that the rule does not allow to announce yet."""
        keys = keys_matching(self._index[side], pattern)
        return keys if self._rule == "count_zero" else [key for key in keys if not self._all_met(key)]

    def _without(self, pattern: Pattern, keys: list[Hashable]) -> list[Pattern]:
        """Return the rest of a pattern without some of the keys that it matches."""
        if isinstance(pattern, Equals):
            return [] if keys else [pattern]
        taken = Ranges(self._domain)
        for key in keys:
            taken.add(Equals(key))  # type: ignore[arg-type]
        return taken.add(pattern)

    def _all_met(self, key: Hashable) -> bool:
        """Return whether all pairs of a key that both sides have closed are emitted."""
        partition = self._store.of(key)
        held = [self._index[side][key] for side in Side if key in self._index[side]]
        one_sided = len(held) < len(Side)
        return one_sided or not partition.has_disk() or all(rows.newest <= partition.joined for rows in held)

    def _counted(self, outputs: list[Output]) -> list[Output]:
        self.counters.state_nodes = (
            self._store.nodes
            + sum(len(self._closed[side]) + len(self._index[side]) for side in Side)
            + len(self._announced)
            + len(self._unpurged)
            + len(self._candidates)
        )
        return outputs
