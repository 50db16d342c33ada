"""Bad records of the auction. They are made from copies of good records, which are the same at every rate."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from endmark_feed.message import BAD, BIDS, ITEMS, Kind, Message
from endmark_feed.options import FeedOptions

_TIME_COLUMN = {ITEMS: "listed_at", BIDS: "bid_at"}
_REMEMBERED = 1_000  # closed keys to choose from, so a row may break a punctuation that came seconds before


def with_bad_records(good: Iterator[Message], options: FeedOptions) -> Iterator[Message]:
    """Yield every good record, and bad records between them.

    The share of bad records among all is `options.bad_rate`. Each kind of bad record comes equally often, on
    both topics.
    """
    if options.bad_rate == 0:
        yield from good
        return
    random = options.random_stream("bad records")
    chance = options.bad_rate / (1.0 - options.bad_rate)
    plan = _plan(random)
    closed: dict[str, deque[Message]] = {topic: deque(maxlen=_REMEMBERED) for topic in _TIME_COLUMN}
    waiting: dict[str, list[Kind]] = {topic: [] for topic in _TIME_COLUMN}
    gap = int(random.geometric(chance))
    for message in good:
        yield message
        gap -= 1
        if gap == 0:
            gap = int(random.geometric(chance))
            topic, kind = next(plan)
            waiting[topic].append(kind)
        if message.kind is Kind.PUNCTUATION:
            closed[message.topic].append(message)
        elif waiting[message.topic]:
            # A bad record follows its model at once, when the model's key is open and its event time newest.
            ruled_out = closed[message.topic]
            now = [kind for kind in waiting[message.topic] if ruled_out or kind is not Kind.CLOSED]
            waiting[message.topic] = [kind for kind in waiting[message.topic] if kind not in now]
            for kind in now:
                yield _spoil(message, kind, ruled_out, random)


def _plan(random: np.random.Generator) -> Iterator[tuple[str, Kind]]:
    cards = [(topic, kind) for topic in _TIME_COLUMN for kind in BAD]
    while True:
        for card in random.permutation(len(cards)).tolist():
            yield cards[card]


def _spoil(model: Message, kind: Kind, ruled_out: deque[Message], random: np.random.Generator) -> Message:
    match kind:
        case Kind.TRUNCATED:
            text = model.value.decode()  # cut between characters, which breaks the JSON but not the UTF-8
            value = text[: int(random.integers(1, len(text)))].encode()
        case Kind.EMPTY:
            value = b""
        case Kind.NOT_UTF8:
            value = model.value.replace(b'Z"', b'Z\xff"')
        case Kind.CLOSED:
            model = _after_closing(model, ruled_out[int(random.integers(len(ruled_out)))])
            value = model.value
        case _:
            value = _dump(_change(json.loads(model.value), kind, _TIME_COLUMN[model.topic], random))
    return model._replace(value=value, kind=kind)


def _after_closing(model: Message, promise: Message) -> Message:
    row = json.loads(model.value) | {"item_id": int(promise.key)}
    return model._replace(partition=promise.partition, key=promise.key, value=_dump(row))


def _change(row: dict[str, Any], kind: Kind, time_column: str, random: np.random.Generator) -> dict[str, Any]:
    column = list(row)[int(random.integers(len(row)))]
    match kind:
        case Kind.WRONG_TYPE:
            row[column] = 7 if isinstance(row[column], str) else "seven"
        case Kind.MISSING_COLUMN:
            del row[column]
        case Kind.UNKNOWN_FIELD:
            row["colour"] = "red"
        case Kind.LATE:
            at = datetime.fromisoformat(row[time_column]) - timedelta(seconds=random.uniform(0.5, 5.0))
            row[time_column] = at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return row


def _dump(row: dict[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode()
