"""The stream joins of the papers as the oracle examines them, each in the forms its paper describes."""

from __future__ import annotations

from typing import cast

from endmark.punctuation.pattern import Between, Equals, Pattern, Value
from endmark_papers.algorithms.contract import Row, Side
from endmark_papers.algorithms.mjoin import MetadataJoin
from endmark_papers.algorithms.mjoin_options import Arrival, MJoinOptions, StreamScheduling, TupleScheduling
from endmark_papers.algorithms.pjoin import PJoin
from endmark_papers.algorithms.pwjoin import PunctuatedWindowJoin
from endmark_papers.algorithms.shj import SymmetricHashJoin
from endmark_papers.algorithms.wjoin import WindowJoin
from endmark_papers.algorithms.xjoin import XJoin
from support.join_definition import Knowledge
from support.join_oracle import Subject


def _one_to_many(row: Row, _: Row | None) -> list[Pattern]:
    return [Equals(_key(row))] if row.side is Side.LEFT else []


def _clustered_on_the_right(row: Row, before: Row | None) -> list[Pattern]:
    ended = row.side is Side.RIGHT and before is not None and before.key != row.key
    return [Equals(_key(before))] if ended and before else []


def _ascending(row: Row, _: Row | None) -> list[Pattern]:
    return [Between(None, _key(row), high_open=True)]


def _one_to_clustered(row: Row, before: Row | None) -> list[Pattern]:
    return _one_to_many(row, before) + _clustered_on_the_right(row, before)


def _key(row: Row) -> Value:
    return cast("Value", row.key)


def _mjoin(options: MJoinOptions, knowledge: Knowledge = lambda row, before: []) -> Subject:
    return Subject(
        lambda: MetadataJoin(options),
        punctuated=True,
        prompt=options.purge_every == 1 and options.memory_rows is None,
        announces="both",
        knowledge=knowledge,
    )


_MJOINS = {
    "mjoin": _mjoin(MJoinOptions()),
    "mjoin, batch purge": _mjoin(MJoinOptions(purge_every=3)),
    "mjoin, spilling": _mjoin(MJoinOptions(memory_rows=3, buckets=2)),
    "mjoin, 1-NP": _mjoin(MJoinOptions(one_to_many=True), _one_to_many),
    "mjoin, 1-NP, spilling": _mjoin(
        MJoinOptions(one_to_many=True, memory_rows=2, buckets=2, purge_every=2), _one_to_many
    ),
    "mjoin, 1-NC": _mjoin(MJoinOptions(one_to_many=True, right_arrival=Arrival.CLUSTERED), _one_to_clustered),
    "mjoin, ordered": _mjoin(
        MJoinOptions(left_arrival=Arrival.ASCENDING, right_arrival=Arrival.ASCENDING), _ascending
    ),
}
# What a choice between filled queues brings to light.
QUEUED = {
    "random, sequential": _mjoin(MJoinOptions(seed=7)),
    "random, by value": _mjoin(MJoinOptions(seed=7, tuple_scheduling=TupleScheduling.VALUE_ORIENTED)),
    "priority, by value, spilling": _mjoin(
        MJoinOptions(
            stream_scheduling=StreamScheduling.PRIORITY,
            quota=2,
            tuple_scheduling=TupleScheduling.VALUE_ORIENTED,
            purge_every=2,
            memory_rows=3,
            buckets=2,
        )
    ),
    "priority, by value, 1-NP": _mjoin(
        MJoinOptions(
            stream_scheduling=StreamScheduling.PRIORITY,
            quota=2,
            tuple_scheduling=TupleScheduling.VALUE_ORIENTED,
            one_to_many=True,
        ),
        _one_to_many,
    ),
}
SUBJECTS = _MJOINS | {
    "shj": Subject(SymmetricHashJoin),
    "xjoin": Subject(lambda: XJoin(memory_rows=None)),
    "xjoin, spilling": Subject(lambda: XJoin(memory_rows=3, partitions=2), prompt=False),
    "wjoin": Subject(lambda: WindowJoin(2, 4), windows={Side.LEFT: 2, Side.RIGHT: 4}),
    "pjoin": Subject(PJoin, punctuated=True, announces="both"),
    "pjoin, count zero": Subject(lambda: PJoin(rule="count_zero"), punctuated=True, announces="soon"),
    "pjoin, lazy": Subject(lambda: PJoin(purge_every=3), punctuated=True, prompt=False, announces="both"),
    "pjoin, spilling": Subject(
        lambda: PJoin(memory_rows=3, partitions=2), punctuated=True, prompt=False, announces="both"
    ),
    "pjoin, spilling, pull, count zero": Subject(
        lambda: PJoin(memory_rows=3, partitions=2, purge_every=2, propagate="pull", rule="count_zero"),
        punctuated=True,
        prompt=False,
        announces="both",
    ),
    "pwjoin": Subject(
        lambda: PunctuatedWindowJoin(2, 4),
        windows={Side.LEFT: 2, Side.RIGHT: 4},
        punctuated=True,
        announces="soon",
    ),
    "pwjoin, strict": Subject(
        lambda: PunctuatedWindowJoin(0, 3, strict_paper=True),
        windows={Side.LEFT: 0, Side.RIGHT: 3},
        punctuated=True,
        announces="both",
    ),
    "pwjoin, for ever": Subject(lambda: PunctuatedWindowJoin(None, None), punctuated=True, announces="soon"),
    "wjoin, one side for ever": Subject(
        lambda: WindowJoin(None, 0), windows={Side.LEFT: None, Side.RIGHT: 0}
    ),
}
