"""Runs a reference lookup join over a history: after every loop nothing is lost and nothing invented."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import strategies as st

from endmark_papers.algorithms.relation import (
    Lookup,
    MasterRow,
    Match,
    Miss,
    PagedRelation,
    ReferenceLookup,
    StreamRow,
)


class Offer(NamedTuple):
    """Rows of these keys arrive."""

    keys: tuple[int, ...]


class Loop(NamedTuple):
    """The operator goes round once."""


class Save(NamedTuple):
    """A checkpoint is taken."""


class Crash(NamedTuple):
    """Everything since the last checkpoint is lost and happens again."""


Move = Offer | Loop | Save | Crash


class History(NamedTuple):
    """Keys of R, how it is cut, how much may be pending, and what happens."""

    relation: list[int]
    page_rows: int
    memory_rows: int
    moves: list[Move]

    def paged(self) -> PagedRelation:
        return PagedRelation([MasterRow(key, at) for at, key in enumerate(self.relation)], self.page_rows)


# Stream keys reach beyond both ends of R and, where R has gaps, between its rows.
_OFFERS = st.lists(st.integers(-1, 8), min_size=1, max_size=4).map(lambda keys: Offer(tuple(keys)))
_OTHERS = st.sampled_from([Loop(), Loop(), Loop(), Save(), Crash()])
histories = st.builds(
    History,
    relation=st.lists(st.integers(0, 7), max_size=12),
    page_rows=st.integers(1, 4),
    memory_rows=st.integers(1, 5),
    moves=st.lists(st.one_of(_OFFERS, _OTHERS), max_size=14),
)


@dataclass(frozen=True)
class Subject:
    """An operator and what its paper promises of it.

    Args:
        make: a new one.
        limit: the most rows it may hold beside the stream buffer.
        whole: all of a row's matches come in one loop, and a loop with something pending answers its
            oldest row.
    """

    make: Callable[[History], ReferenceLookup]
    limit: Callable[[History], int]
    whole: bool = True


@dataclass
class _Run:
    operator: ReferenceLookup
    offered: list[StreamRow] = field(default_factory=list)
    found: Counter[Lookup] = field(default_factory=Counter)


def check(subject: Subject, history: History) -> None:
    """Raise AssertionError when a match is lost, invented or doubled, or memory is overrun."""
    run = _Run(subject.make(history))
    saved, since = copy.deepcopy(run), list[Offer | Loop]()
    for move in history.moves:
        match move:
            case Save():
                saved, since = copy.deepcopy(run), []
            case Crash():
                run = copy.deepcopy(saved)
                for lost in since:
                    _take(subject, history, run, lost)
            case _:
                since.append(move)
                _take(subject, history, run, move)
    _note(history, run, run.operator.finish())
    assert not list(run.operator.pending())
    assert run.found == Counter(answer for row in run.offered for answer in answers(history, row))


def answers(history: History, row: StreamRow) -> list[Lookup]:
    """The definition: every row of R with this key, else a miss."""
    found = [MasterRow(key, at) for at, key in enumerate(history.relation) if key == row.key]
    return [Match(row, master) for master in found] or [Miss(row)]


def _take(subject: Subject, history: History, run: _Run, move: Offer | Loop) -> None:
    before = list(run.operator.pending())
    if isinstance(move, Offer):
        rows = [StreamRow(key, len(run.offered) + at) for at, key in enumerate(move.keys)]
        run.offered += rows
        run.operator.offer(rows)
        assert Counter(run.operator.pending()) == Counter([*before, *rows])
        return
    _note(history, run, run.operator.loop())
    after = set(run.operator.pending())
    assert run.operator.counters.state_rows <= subject.limit(history), "more held than memory allows"
    if subject.whole:
        answered = {answer.stream for answer in run.found}
        assert answered == set(run.offered) - after, "answered and pending do not add up"
        oldest = min(before, key=lambda row: row.serial, default=None)
        assert oldest is None or oldest in answered, "the oldest row was passed over"


def _note(history: History, run: _Run, found: list[Lookup]) -> None:
    run.found.update(found)
    assert max(run.found.values(), default=1) == 1, "an answer twice"
    for answer in found:
        assert answer in answers(history, answer.stream), "a wrong answer"
    counters = run.operator.counters
    misses = sum(isinstance(answer, Miss) for answer in run.found)
    assert (counters.results, counters.misses) == (len(run.found) - misses, misses)
