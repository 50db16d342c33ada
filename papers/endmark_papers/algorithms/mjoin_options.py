"""The options of MJoin: a policy for every sub-task, the declared constraints, and the memory."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from endmark.domain import Domain
from endmark.errors import ConfigError
from endmark_papers.algorithms.contract import Side


class StreamScheduling(StrEnum):
    """The policy for choosing the next queue: a random one, or that of the one-side first (section 4.1)."""

    RANDOM = "random"
    PRIORITY = "priority"


class TupleScheduling(StrEnum):
    """The policy for choosing the next row of a queue (section 4.2).

    It is the oldest row, or one that the other side's newest punctuations match.
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
    """The policies and constraints of a `MetadataJoin`.

    Args:
        stream_scheduling: the policy for choosing a queue.
        quota: objects that priority scheduling takes from a queue before it is the other one's turn.
        seed: the seed of random scheduling.
        tuple_scheduling: the policy for choosing a row of that queue.
        purge_every: punctuations after which state is purged; 1 is immediate, more is batch purging.
        propagate: whether output punctuations are emitted.
        one_to_many: declares that a key comes at most once on the left.
        left_arrival: the declared order of the left keys.
        right_arrival: the declared order of the right keys.
        domain: the type of the keys.
        memory_rows: rows that hash buckets and purge buffers of both sides may hold; `None`: no limit.
        buckets: the number of hash buckets of each side.

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
