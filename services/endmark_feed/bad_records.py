"""Bad records of a workload. They are made from copies of good records, which are the same at every rate."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from endmark_feed.message import BAD, Kind, Message

_REMEMBERED = 1_000  # closed keys to choose from, so a row may break a promise that was made seconds before


@dataclass(frozen=True)
class Spoilable:
    """A stream of JSON rows that gets bad records.

    Args:
        time_column: the column of its event time.
        key_column: the column, a long, of which its promises name a value.
        unique: whether each row promises that its key does not come again; otherwise punctuations do.
        nullable: the columns that a good row may lack, so that none is spoilt.
    """

    time_column: str
    key_column: str
    unique: bool = False
    nullable: tuple[str, ...] = ()


def with_bad_records(
    good: Iterator[Message], streams: Mapping[str, Spoilable], share: float, random: np.random.Generator
) -> Iterator[Message]:
    """Yield every good record, and bad records between them.

    Each kind of bad record comes equally often, on all topics.

    Args:
        good: the good records.
        streams: the stream of each topic.
        share: the share of bad records among all.
        random: the source of randomness of the bad records alone.
    """
    if share == 0:
        yield from good
        return
    chance = share / (1.0 - share)
    plan = _plan(random, streams)
    closed: dict[str, deque[Message]] = {topic: deque(maxlen=_REMEMBERED) for topic in streams}
    waiting: dict[str, list[Kind]] = {topic: [] for topic in streams}
    gap = int(random.geometric(chance))
    for message in good:
        yield message
        gap -= 1
        if gap == 0:
            gap = int(random.geometric(chance))
            topic, kind = next(plan)
            waiting[topic].append(kind)
        stream = streams[message.topic]
        if message.kind is not Kind.PUNCTUATION and waiting[message.topic]:
            # A bad record follows its model at once, when the model's key is open and its event time newest.
            ruled_out = closed[message.topic]
            now = [kind for kind in waiting[message.topic] if ruled_out or kind is not Kind.CLOSED]
            waiting[message.topic] = [kind for kind in waiting[message.topic] if kind not in now]
            for kind in now:
                yield _spoil(message, kind, stream, ruled_out, random)
        if stream.unique or message.kind is Kind.PUNCTUATION:
            closed[message.topic].append(message)


def _plan(random: np.random.Generator, topics: Mapping[str, Spoilable]) -> Iterator[tuple[str, Kind]]:
    cards = [(topic, kind) for topic in topics for kind in BAD]
    while True:
        for card in random.permutation(len(cards)).tolist():
            yield cards[card]


def _spoil(
    model: Message, kind: Kind, stream: Spoilable, ruled_out: deque[Message], random: np.random.Generator
) -> Message:
    match kind:
        case Kind.TRUNCATED:
            text = model.value.decode()  # cut between characters, which breaks the JSON but not the UTF-8
            value = text[: int(random.integers(1, len(text)))].encode()
        case Kind.EMPTY:
            value = b""
        case Kind.NOT_UTF8:
            value = model.value.replace(b'Z"', b'Z\xff"')
        case Kind.CLOSED:
            model = _after_closing(model, stream, ruled_out[int(random.integers(len(ruled_out)))])
            value = model.value
        case _:
            value = _dump(_change(json.loads(model.value), kind, stream, random))
    return model._replace(value=value, kind=kind)


def _after_closing(model: Message, stream: Spoilable, promise: Message) -> Message:
    row = json.loads(model.value) | {stream.key_column: int(promise.key)}
    return model._replace(partition=promise.partition, key=promise.key, value=_dump(row))


def _change(
    row: dict[str, Any], kind: Kind, stream: Spoilable, random: np.random.Generator
) -> dict[str, Any]:
    able = [column for column in row if column not in stream.nullable]
    column = able[int(random.integers(len(able)))]
    match kind:
        case Kind.WRONG_TYPE:
            row[column] = 7 if isinstance(row[column], str) else "seven"
        case Kind.MISSING_COLUMN:
            del row[column]
        case Kind.UNKNOWN_FIELD:
            row["colour"] = "red"
        case Kind.LATE:
            at = datetime.fromisoformat(row[stream.time_column]) - timedelta(seconds=random.uniform(0.5, 5.0))
            row[stream.time_column] = at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return row


def _dump(row: dict[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode()
