"""Replays of dead letters: the record is sent to its partition once more, as it was or corrected.

The new record is treated like any other. The ops database keeps who replayed which dead letter, and no dead
letter is replayed twice.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from endmark.control.pulse import Sender
from endmark.control.tables import replays
from endmark.errors import EndmarkError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from endmark.control.database import OpsDatabase
    from endmark.control.dead_letters import Coordinates, DeadLetter
    from endmark.kafka.cluster import ClusterOrAddress

_CUT_OFF_SECONDS = 60.0  # a replay unfinished after this time was cut off: the broker is given far less


class ReplayedError(EndmarkError):
    """The dead letter has been replayed before."""


@dataclass(frozen=True)
class Replay:
    """A replay of a dead letter.

    Args:
        at: the time of the replay, in Unix seconds.
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
) -> Replay:
    """Replay one dead letter over a connection of its own; see `replay_by`."""
    with Sender(bootstrap) as sender:
        return replay_by(sender, ops, pipeline, letter, value, by)


def replay_by(
    sender: Sender, ops: OpsDatabase, pipeline: str, letter: DeadLetter, value: bytes | None, by: str
) -> Replay:
    """Send a value to the partition of a dead letter, with headers that name the dead letter and the sender.

    Args:
        sender: sends the record.
        ops: the ops database, which stores the replay.
        pipeline: the pipeline's name.
        letter: the dead letter.
        value: the value to send; `None` is a tombstone.
        by: the name of the person who sends it.

    Raises:
        ReplayedError: somebody has replayed the dead letter before.
        MissingPartError: the broker does not answer; the record may be in Kafka nevertheless.
    """
    claimed = Replay(time.time(), by, value != letter.value, None)
    _claim(ops, pipeline, letter.at, claimed)
    headers = [("endmark-replay-of", str(letter.at).encode()), ("endmark-replay-by", by.encode())]
    here = _here(pipeline, letter.at)
    try:
        offset = sender.send(letter.at.topic, value, letter.at.partition, headers)
    except EndmarkError:
        with ops.engine.begin() as connection:
            connection.execute(replays.delete().where(here))
        raise
    with ops.engine.begin() as connection:
        connection.execute(replays.update().where(here).values(to_offset=offset))
    return Replay(claimed.at, by, claimed.changed, offset)


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


def replayed_places(ops: OpsDatabase, pipeline: str) -> set[tuple[str, int, int]]:
    """Return topic, partition and offset of all dead letters of a pipeline that have been replayed."""
    done = replays.c.to_offset.is_not(None) | (replays.c.at >= time.time() - _CUT_OFF_SECONDS)
    query = sa.select(replays.c.topic, replays.c.partition, replays.c.offset)
    with ops.engine.connect() as connection:
        rows = connection.execute(query.where(replays.c.pipeline == pipeline, done))
        return {(row.topic, row.partition, row.offset) for row in rows}


def _claim(ops: OpsDatabase, pipeline: str, at: Coordinates, claimed: Replay) -> None:
    here = _here(pipeline, at)
    cut_off = replays.c.to_offset.is_(None) & (replays.c.at < claimed.at - _CUT_OFF_SECONDS)
    try:
        with ops.engine.begin() as connection:
            connection.execute(replays.delete().where(here & cut_off))
            connection.execute(
                replays.insert().values(
                    pipeline=pipeline,
                    topic=at.topic,
                    partition=at.partition,
                    offset=at.offset,
                    at=claimed.at,
                    by=claimed.by,
                    changed=claimed.changed,
                )
            )
    except IntegrityError as error:
        with ops.engine.connect() as connection:
            row = connection.execute(sa.select(replays).where(here)).one()
        to = "is being replayed" if row.to_offset is None else f"was replayed to offset {row.to_offset}"
        raise ReplayedError(
            f"{at} {to} by {row.by}; what becomes of it has coordinates of its own"
        ) from error


def _here(pipeline: str, at: Coordinates) -> Any:
    return sa.and_(
        replays.c.pipeline == pipeline,
        replays.c.topic == at.topic,
        replays.c.partition == at.partition,
        replays.c.offset == at.offset,
    )
