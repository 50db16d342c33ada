"""Replays of dead letters: the record is sent to its partition once more, as it was or corrected.

The new record is treated like any other. The ops database keeps who replayed which dead letter, and no dead
letter is replayed twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from endmark.control.dead_letters.sent_records import SentRecord, SentRecords
from endmark.control.ops_database.tables import replays
from endmark.errors import EndmarkError
from endmark.kafka.sending import Sender

if TYPE_CHECKING:
    from collections.abc import Iterable

    from endmark.control.dead_letters.search import Coordinates, DeadLetter
    from endmark.control.ops_database.database import OpsDatabase
    from endmark.kafka.cluster import ClusterOrAddress

_CUT_OFF_SECONDS = 60.0  # a replay unfinished after this time was cut off: the broker is given far less


class ReplayedError(EndmarkError):
    """The dead letter has been replayed before."""


class GoneError(EndmarkError):
    """Kafka does not hold the record of the dead letter any more, and its value alone does not suffice."""


@dataclass(frozen=True)
class Replay:
    """A replay of a dead letter.

    Args:
        at: the time of the replay by the database's clock, in Unix seconds.
        by: the name of whoever replayed it.
        changed: whether the value that was sent differs from the dead letter's.
        to_offset: the new record's offset in the same partition; `None` while it is being sent, and for ever
            if the sender died meanwhile.
    """

    at: float
    by: str
    changed: bool
    to_offset: int | None


def replay(
    ops: OpsDatabase,
    bootstrap: ClusterOrAddress,
    pipeline: str,
    letter: DeadLetter,
    value: bytes | None,
    by: str,
    whole: Collection[str],
) -> Replay:
    """Replay one dead letter over connections of its own; see `Replayer.replay`."""
    with Replayer(ops, bootstrap, pipeline, by, whole) as replayer:
        return replayer.replay(letter, value)


class Replayer:
    """Replays dead letters one by one. Close it in the end.

    Args:
        ops: the ops database, which stores the replays.
        bootstrap: the Kafka cluster, or the addresses of its brokers.
        pipeline: the pipeline's name.
        by: the name of the person who sends them.
        whole: the topics whose streams take columns from keys, headers or timestamps.
    """

    def __init__(
        self,
        ops: OpsDatabase,
        bootstrap: ClusterOrAddress,
        pipeline: str,
        by: str,
        whole: Collection[str],
    ) -> None:
        self._ops = ops
        self._pipeline = pipeline
        self._by = by
        self._whole = whole
        self._sender = Sender(bootstrap)
        self._sent_records = SentRecords(bootstrap)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._sender, self._sent_records:
            pass

    def replay(self, letter: DeadLetter, value: bytes | None) -> Replay:
        """Send a value to the partition of a dead letter, with its key, its headers, and two more headers.

        These name the dead letter and the sender. The timestamp is that of the dead letter if the stream may
        take a column from it, and else the present time.

        Args:
            letter: the dead letter.
            value: the value to send; `None` is a tombstone.

        Raises:
            ReplayedError: somebody has replayed the dead letter before.
            GoneError: Kafka does not hold the record, and the stream takes columns from its key, headers or
                timestamp.
            UnreachableError: the broker does not answer; the record may be in Kafka nevertheless.
        """
        claimed = Replay(self._ops.now(), self._by, value != letter.value, None)
        _claim(self._ops, self._pipeline, letter.at, claimed)
        here = _here(self._pipeline, letter.at)
        try:
            offset = self._send(letter.at, value)
        except EndmarkError:
            with self._ops.engine.begin() as connection:
                connection.execute(replays.delete().where(here))
            raise
        with self._ops.engine.begin() as connection:
            connection.execute(replays.update().where(here).values(to_offset=offset))
        return Replay(claimed.at, self._by, claimed.changed, offset)

    def _send(self, at: Coordinates, value: bytes | None) -> int:
        """Send a value in place of a dead letter; return its offset."""
        whole, found = at.topic in self._whole, self._sent_records.find(at)
        if found is None and whole:
            raise GoneError(
                f"Kafka does not hold {at} any more, and its stream takes columns from the key, headers or "
                "timestamp of records; let the producer send the record again"
            )
        record = found or SentRecord()
        headers = {
            **dict(record.headers),
            "endmark-replay-of": str(at).encode(),
            "endmark-replay-by": self._by.encode(),
        }
        timestamp = record.timestamp if whole else None
        return self._sender.send(at.topic, value, at.partition, list(headers.items()), record.key, timestamp)


def replayed(ops: OpsDatabase, pipeline: str, letters: Iterable[DeadLetter]) -> Mapping[Coordinates, Replay]:
    """Return the replays of dead letters by coordinates; dead letters without a replay are left out.

    Args:
        ops: the ops database.
        pipeline: the pipeline's name.
        letters: the dead letters.
    """
    found = {}
    with ops.engine.connect() as connection:
        for letter in letters:
            query = sa.select(replays.c.at, replays.c.by, replays.c.changed, replays.c.to_offset)
            if (row := connection.execute(query.where(_here(pipeline, letter.at))).first()) is not None:
                found[letter.at] = Replay(**row._mapping)
    return found


def replayed_coordinates(ops: OpsDatabase, pipeline: str) -> set[tuple[str, int, int]]:
    """Return topic, partition and offset of all dead letters of a pipeline that have been replayed."""
    done = replays.c.to_offset.is_not(None) | (replays.c.at >= ops.now() - _CUT_OFF_SECONDS)
    query = sa.select(replays.c.topic, replays.c.partition, replays.c.offset)
    with ops.engine.connect() as connection:
        rows = connection.execute(query.where(replays.c.pipeline == pipeline, done))
        return {(row.topic, row.partition, row.offset) for row in rows}


def _claim(ops: OpsDatabase, pipeline: str, at: Coordinates, claimed: Replay) -> None:
    """Store a replay that is on its way, in place of one that was cut off.

    The insertion comes first. To remove a row that is not there locks its neighbours in MySQL, so two clients
    that began with that waited for each other.
    """
    here = _here(pipeline, at)
    cut_off = replays.c.to_offset.is_(None) & (replays.c.at < claimed.at - _CUT_OFF_SECONDS)
    row = {
        "pipeline": pipeline,
        "topic": at.topic,
        "partition": at.partition,
        "offset": at.offset,
        "at": claimed.at,
        "by": claimed.by,
        "changed": claimed.changed,
    }
    try:
        with ops.engine.begin() as connection:
            connection.execute(replays.insert().values(**row))
    except IntegrityError as error:
        with ops.engine.begin() as connection:
            again = replays.update().where(here & cut_off).values(**row)
            if connection.execute(again).rowcount:
                return
            found = connection.execute(sa.select(replays).where(here)).first()
        if found is None:
            to, by = "was being replayed", "somebody, but in vain; try again"
        else:
            to = (
                "is being replayed"
                if found.to_offset is None
                else f"was replayed to offset {found.to_offset}"
            )
            by = f"{found.by}; what becomes of it has coordinates of its own"
        raise ReplayedError(f"{at} {to} by {by}") from error


def _here(pipeline: str, at: Coordinates) -> Any:
    return sa.and_(
        replays.c.pipeline == pipeline,
        replays.c.topic == at.topic,
        replays.c.partition == at.partition,
        replays.c.offset == at.offset,
    )
