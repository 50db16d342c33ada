"""PJoin against the join's definition on random histories."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from endmark.punctuation.pattern import Anything, Between, Equals, Nothing
from endmark_papers.algorithms.contract import Announced, Closing, Output, Result, Row, Side, Violation
from endmark_papers.algorithms.pjoin import PJoin
from support.cases import cases
from support.join_definition import World
from support.join_moves import Arrive, Close, Crash, Idle, Move, Save, elements, moves

VALUES = range(-2, 7)  # the keys of the histories, and some that no row has

options = st.fixed_dictionaries(
    {
        "memory_rows": st.sampled_from([1, 2, 3, 5, None]),
        "partitions": st.sampled_from([1, 3]),
        "purge_every": st.sampled_from([1, 2, 4]),
        "propagate": st.sampled_from(["push", "pull"]),
        "rule": st.sampled_from(["both_sides", "count_zero"]),
    }
)
# Pauses between few keys: a row comes after a disk join, and then its key is closed.
ROWS = [Arrive(side, key, 0) for side in Side for key in range(2)]
CLOSINGS = [Close(side, p, 0) for side in Side for p in (Equals(0), Between(0, 1), Anything(), Nothing())]
restless = st.lists(st.sampled_from([*ROWS * 4, *CLOSINGS, *[Idle()] * 6, Save()]), max_size=25)
histories = st.one_of(moves, restless)


class Trial:
    """A join and what it said so far, beside the definition."""

    def __init__(self, chosen: dict[str, Any]) -> None:
        self.chosen = chosen
        self.join = PJoin(**chosen)
        self.world = World(dict.fromkeys(Side), punctuated=True)
        self.results: set[Result] = set()
        self.announced: set[int] = set()
        self.violations: list[Row] = []

    def take(self, step: Row | Closing | Idle | Save | Crash) -> None:
        match step:
            case Row() | Closing():
                self.world.arrive(step)
                self.hear(self.join.process(step))
            case Idle():
                self.hear(self.join.idle())
                self.hear(self.join.pull())
            case Save() | Crash():
                lost, self.join = self.join, copy.deepcopy(self.join)
                lost.finish()
        self.examine()

    def hear(self, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case Result(left, _):
                    assert left.key not in self.announced
                    assert output not in self.results
                    self.results.add(output)
                case Violation(row):
                    self.violations.append(row)
                case Announced(pattern):
                    values = {value for value in VALUES if pattern.matches(value)}
                    assert not values & self.announced, "announced twice"
                    assert all(map(self.world.announceable, values))
                    owed = self.world.pairs() - self.results
                    assert not {pair for pair in owed if pair.left.key in values}
                    self.announced |= values

    def examine(self) -> None:
        live = list(self.join.live())
        arrived = sum(map(len, self.world.rows.values()))
        counters = self.join.counters
        assert self.world.needed() <= set(live)
        assert self.results <= self.world.pairs()
        assert self.violations == self.world.violations
        assert len(set(live)) == len(live) == counters.state_rows == counters.inserts - counters.purged
        assert counters.dropped + counters.inserts == arrived
        assert counters.violations == len(self.violations)
        assert counters.results == len(self.results)
        assert counters.state_nodes == nodes_of(self.join, live)
        if self.chosen["memory_rows"] is None:
            self.examine_in_memory(set(live))

    def examine_in_memory(self, live: set[Row]) -> None:
        """Without a disk nothing is late: neither results nor, if eager and pushed, anything else."""
        assert self.results == self.world.pairs()
        if self.chosen["purge_every"] == 1:
            assert live == self.world.needed()
        if self.chosen["propagate"] == "push" and self.chosen["rule"] == "both_sides":
            assert self.announced == self.closed_by_both()
        elif self.chosen["propagate"] == "push" and self.chosen["purge_every"] == 1:
            assert self.announced == set(filter(self.world.announceable, VALUES))

    def closed_by_both(self) -> set[int]:
        return {value for value in VALUES if all(self.world.closed(side, value) for side in Side)}


def nodes_of(join: PJoin, live: list[Row]) -> int:
    """Entries of the hash tables, of the punctuation index, and of what is known of punctuations."""
    parts = [part for partition in join._store for part in partition.parts.values()]
    tables = sum(len(part.memory) + len(part.waiting) for part in parts)
    ranges = [*join._closed.values(), join._announced]
    lists = len(join._unpurged) + len(join._candidates)
    return tables + len({(row.side, row.key) for row in live}) + sum(map(len, ranges)) + lists


@cases(300)
@given(options, histories)
def test_definition(chosen: dict[str, Any], history: list[Move]) -> None:
    """Every pair once, never after its announcement; at the end nothing useless is held."""
    trial = Trial(chosen)
    for step in elements(history):
        trial.take(step)
    trial.hear(trial.join.finish())
    trial.examine()

    assert trial.results == trial.world.pairs()
    assert trial.announced >= trial.closed_by_both()
    assert set(trial.join.live()) == trial.world.needed()
    assert trial.join.finish() == trial.join.idle() == trial.join.pull() == []


@cases(60)
@given(options, histories)
def test_a_long_pause_settles_everything(chosen: dict[str, Any], history: list[Move]) -> None:
    """One disk join per partition empties purge buffers and gives what is due; then nothing is read."""
    trial = Trial(chosen)
    for step in elements(history):
        trial.take(step)
    for _ in range(chosen["partitions"]):
        trial.take(Idle())
    reads = trial.join.counters.page_reads
    trial.take(Idle())

    assert trial.results == trial.world.pairs()
    assert set(trial.join.live()) == trial.world.needed()
    assert trial.join.counters.page_reads == reads


@cases(60)
@given(st.sampled_from([1, 2, 3, 5]), st.sampled_from([1, 3]), histories)
def test_memory_is_kept(memory: int, partitions: int, history: list[Move]) -> None:
    join = PJoin(memory, partitions)
    for step in elements(history):
        if isinstance(step, Row | Closing):
            join.process(step)
        elif isinstance(step, Idle):
            join.idle()
        parts = [part for partition in join._store for part in partition.parts.values()]

        resident = sum(1 for part in parts for _ in part.resident())
        assert resident <= memory
        assert join._store.full == (resident == memory)
