"""The options of MJoin: a policy for every sub-task, the constraints declared, and the memory."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from endmark.errors import ConfigError
from endmark.punctuation.domain import Domain
from endmark_papers.algorithms.contract import Side


class StreamScheduling(StrEnum):
    """The choice of the queue of the next object: a random one, or the one-side's first (section 4.1)."""

    RANDOM = "random"
    PRIORITY = "priority"


class TupleScheduling(StrEnum):
    """The choice of the next row of a queue: the oldest, or one that the other side's newest punctuations
    match (section 4.2).
    """

    SEQUENTIAL = "sequential"
    VALUE_ORIENTED = "value-oriented"


class Arrival(StrEnum):
    """The order in which a stream's keys are declared to come (section 4.3)."""

    ANY = "any"
    CLUSTERED = "clustered"
    ASCENDING = "ascending"
    DESCENDING = "descending"


@dataclass(frozen=True, slots=True, kw_only=True)
class MJoinOptions:
    """Policies and constraints of a `MetadataJoin`.

    Attributes:
        stream_scheduling: how a queue is chosen.
        quota: objects that priority scheduling takes from a queue before it is the other's turn.
        seed: of random scheduling.
        tuple_scheduling: how a row of the chosen queue is chosen.
        purge_every: punctuations after which state is purged; 1 is immediate, more is batch purging.
        propagate: whether output punctuations are emitted.
        one_to_many: a key comes at most once on the left.
        left_arrival: order of the left keys.
        right_arrival: order of the right keys.
        domain: type of the keys.
        memory_rows: rows that hash buckets and purge buffers of both sides hold in memory; None is no limit.
        buckets: hash buckets of a side.

    Raises:
        ConfigError: a number is below 1.
    """

    stream_scheduling: StreamScheduling = StreamScheduling.RANDOM
    quota: int = 10
    seed: int = 0
    tuple_scheduling: TupleScheduling = TupleScheduling.SEQUENTIAL
    purge_every: int = 1
    propagate: bool = True
    one_to_many: bool = False
    left_arrival: Arrival = Arrival.ANY
    right_arrival: Arrival = Arrival.ANY
    domain: Domain = Domain.LONG
    memory_rows: int | None = None
    buckets: int = 64

    def __post_init__(self) -> None:
        for name in ("quota", "purge_every", "memory_rows", "buckets"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise ConfigError(f"{name} of MJoin is {number}; give at least 1")

    def arrival(self, side: Side) -> Arrival:
        return self.left_arrival if side is Side.LEFT else self.right_arrival
