"""How many accesses enter state on MJoin's news: in the engine, and in the algorithm as printed."""

from __future__ import annotations

from dataclasses import dataclass

from endmark.operators.stream_join.presets import Preset
from endmark.punctuation.pattern import Equals
from endmark_papers.algorithms.contract import Closing, Row, Side
from endmark_papers.algorithms.mjoin import MetadataJoin
from endmark_papers.algorithms.mjoin_options import MJoinOptions, StreamScheduling, TupleScheduling
from support.state_bounds import Streams, run

SCHEDULED = MJoinOptions(
    one_to_many=True,
    stream_scheduling=StreamScheduling.PRIORITY,
    tuple_scheduling=TupleScheduling.VALUE_ORIENTED,
)
UNSCHEDULED = MJoinOptions(one_to_many=True)


@dataclass(frozen=True)
class Insertions:
    """Right rows that entered state when so many elements at a time were there to choose from."""

    burst: int
    rows: int
    unscheduled: int
    scheduled: int
    engine: int


def insertions(news: Streams, burst: int) -> Insertions:
    """The engine's batches are the bursts from which the schedulers choose."""
    return Insertions(
        burst=burst,
        rows=sum(not element.closes for element in news.elements() if element.side == 1),
        unscheduled=_reference(news, burst, UNSCHEDULED),
        scheduled=_reference(news, burst, SCHEDULED),
        engine=run(news, burst, Preset.MJOIN).inserted["right"],
    )


def _reference(news: Streams, burst: int, options: MJoinOptions) -> int:
    join = MetadataJoin(options)
    for number, (microseconds, side, key, closes) in enumerate(news.elements(), start=1):
        name = Side.RIGHT if side else Side.LEFT
        if closes:
            join.offer(Closing(name, Equals(key), microseconds))
        else:
            join.offer(Row(name, key, microseconds, number))
        if number % burst == 0:
            join.work()
    join.work()
    return join.counters.right_inserts
