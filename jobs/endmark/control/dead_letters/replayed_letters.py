"""Replays of all dead letters that meet a condition, in the order of their records.

Each of them is replayed as one alone is: it is claimed in the ops database first, so nobody replays it twice.
If the broker fails on the way, the next call goes on with those that are left.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from endmark.control.dead_letters.replays import ReplayedError, Replayer, replayed_coordinates
from endmark.control.dead_letters.search import Coordinates, DeadLetter
from endmark.expressions.condition import Condition
from endmark.storage import delta_table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from endmark.control.ops_database.database import OpsDatabase
    from endmark.kafka.cluster import ClusterOrAddress
    from endmark.storage import Location

_COLUMNS = ("topic", "partition", "offset", "reason", "error", "value")


@dataclass
class Chosen:
    """The dead letters that meet a condition.

    Args:
        letters: the letters to send, in the order of topic, partition and offset.
        matching: the number of letters that meet the condition.
        replayed: the number of those that have been replayed before.
        control: the number of those that are control records, which are not replayed.
        failed: the number of letters on which the condition failed.
        why: DuckDB's error for the first of these.
    """

    letters: list[DeadLetter] = field(default_factory=list)
    matching: int = 0
    replayed: int = 0
    control: int = 0
    failed: int = 0
    why: str = ""

    @property
    def left(self) -> int:
        """The number of letters beyond the most that one call sends."""
        return self.matching - self.replayed - self.control - len(self.letters)


def choose(
    ops: OpsDatabase, pipeline: str, table: Location, where: str, control_topic: str, limit: int
) -> Chosen:
    """Find the dead letters that meet a condition and have not been replayed.

    Args:
        ops: the ops database, which knows the replays.
        pipeline: the pipeline's name.
        table: the directory of the table of dead letters.
        where: the condition in SQL over the columns of the table.
        control_topic: the pipeline's control topic.
        limit: the most letters to send, of which the first are taken.

    Raises:
        ConfigError: `where` is no condition over these columns.
    """
    found, done = Chosen(), replayed_coordinates(ops, pipeline)
    found.letters = heapq.nsmallest(
        limit,
        _open(found, table, where, done, control_topic),
        key=lambda letter: (letter.at.topic, letter.at.partition, letter.at.offset),
    )
    return found


def _open(
    found: Chosen, table: Location, where: str, done: set[tuple[str, int, int]], control_topic: str
) -> Iterator[DeadLetter]:
    """Yield the letters that may be sent, and count the others in `found`."""
    # This import is heavy, and other commands start without it.
    import pyarrow as pa

    kinds = (pa.string(), pa.int32(), pa.int64(), pa.string(), pa.string(), pa.binary())
    schema = pa.schema(list(zip(_COLUMNS, kinds, strict=True)))
    condition = Condition.of(where, schema, "--where")
    if (delta := delta_table(table)) is None:
        return
    for stored in delta.to_pyarrow_dataset().to_batches(columns=list(_COLUMNS)):
        batch = stored.cast(schema)
        answer = condition.ask(batch.select(list(condition.columns)))
        found.failed += len(answer.failed)
        found.why = found.why or answer.why
        for row in batch.take(answer.holds.nonzero()[0]).to_pylist():
            at = Coordinates(row["topic"], row["partition"], row["offset"])
            found.matching += 1
            if at.topic == control_topic:
                found.control += 1
            elif (at.topic, at.partition, at.offset) in done:
                found.replayed += 1
            else:
                yield DeadLetter(at, row["reason"], row["error"], row["value"])


def replay_all(
    ops: OpsDatabase,
    bootstrap: ClusterOrAddress,
    pipeline: str,
    letters: Sequence[DeadLetter],
    by: str,
    whole: Collection[str],
) -> int:
    """Replay dead letters as they are; return how many were sent.

    A letter that somebody else has just replayed is left out.

    Args:
        ops: the ops database.
        bootstrap: the Kafka cluster, or the addresses of its brokers.
        pipeline: the pipeline's name.
        letters: the letters.
        by: the name of the person who sends them.
        whole: the topics whose streams take columns from keys, headers or timestamps.

    Raises:
        GoneError: Kafka does not hold a record whose stream needs more than the value. The letters before
            this one have been sent.
        UnreachableError: the broker does not answer. The letters before this one have been sent.
    """
    sent = 0
    with Replayer(ops, bootstrap, pipeline, by, whole) as replayer:
        for letter in letters:
            try:
                replayer.replay(letter, letter.value)
            except ReplayedError:
                continue
            sent += 1
    return sent
