"""Histories of two frames, and what a join of them says about these in its column of punctuations."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from endmark.domain import Domain
from endmark.punctuation.pattern import Equals
from endmark.punctuation.wire_json import pattern_to_json
from support.frame_tasks import COLUMN, Rows, said
from support.output_world import SIDES, Event, History, Place, Side
from support.times import Sets, as_number, in_column, sets

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [("key", pa.int32()), ("value", pa.int64()), ("number", pa.int64()), ("time", pa.timestamp("us", "UTC"))]
)
NOTHING: dict[Side, Rows] = {"left": [], "right": []}
Announced = Sets  # an output punctuation


def of_frames(history: History) -> History:
    """The same events as frames have them: in one partition, rows in order of time before the punctuations of
    their batch, which count in order of their text; a frame that does not punctuate its key punctuates
    nothing."""
    batches = []
    for batch in history.batches:
        events = [
            replace(event, partition=0)
            for event in batch
            if event.time is not None or history.keyed[event.side]
        ]
        events.sort(key=lambda event: (event.time is None, event.time or 0, json.dumps(_texts(event))))
        batches.append(events)
    return replace(history, batches=batches, partitions=dict.fromkeys(SIDES, 1), timed=history.keyed)


def batches(history: History) -> Iterator[dict[Side, Rows]]:
    """Yield the rows of each frame, batch by batch."""
    for placed in history.placed():
        yield {side: [_row(*each) for each in placed if each[0].side == side] for side in SIDES}


def _row(event: Event, place: Place) -> dict[str, Any]:
    if event.time is not None:
        at = START + timedelta(microseconds=event.time)
        return {"key": event.key, "value": event.value, "number": place[1], "time": at}
    return said(_texts(event))


def _texts(event: Event) -> dict[str, Any]:
    patterns = event.patterns or (("key", Equals(event.key)),)
    domains = {"key": Domain.LONG, "value": Domain.LONG, "time": Domain.TIMESTAMP}
    return {name: pattern_to_json(in_column(name, each, START), domains[name]) for name, each in patterns}


def without_time(history: History) -> History:
    """The same, with all rows at once."""
    timeless = [
        [event if event.time is None else replace(event, time=0) for event in batch]
        for batch in history.batches
    ]
    return replace(history, batches=timeless)


def named_by(history: History, side: Side) -> set[int]:
    """The keys that a frame closes by their names."""
    events = [event for batch in history.batches for event in batch if event.side == side]
    return {event.key for event in events if event.time is None and not event.patterns}


def punctuations(batch: Rows) -> list[str]:
    """The output punctuations of a batch."""
    return [row[COLUMN] for row in batch if row[COLUMN] is not None and not row[COLUMN].startswith('{"$')]


def wrong(out: list[Rows]) -> Iterator[tuple[str, int]]:
    """Frame and number of the rows that were not joined."""
    for text in (row[COLUMN] for batch in out for row in batch):
        if text is not None and text.startswith('{"$violation'):
            told = json.loads(text)["$violation"]
            yield told["frame"], told["record"]["number"]


def following(out: list[Rows]) -> Iterator[tuple[dict[str, Any], str]]:
    """Each result with each output punctuation of an earlier batch."""
    earlier: list[str] = []
    for batch in out:
        yield from ((row, text) for row in batch if row[COLUMN] is None for text in earlier)
        earlier += punctuations(batch)


class Told:
    """What a join has put out, batch by batch.

    `broken` are results that match an output punctuation of an earlier batch, which is never.
    """

    def __init__(self) -> None:
        self.results: Counter[tuple[Place | None, Place | None]] = Counter()
        self.violations: set[tuple[str, int, int]] = set()
        self.announced: Counter[Announced] = Counter()
        self.broken: Rows = []

    def take(self, rows: Rows) -> None:
        """One batch."""
        texts = [json.loads(row[COLUMN]) for row in rows if row[COLUMN] is not None]
        for row in rows:
            if row[COLUMN] is None:
                left, right = (row.get(f"{side}_number") for side in SIDES)
                self.results[None if left is None else (0, left), None if right is None else (0, right)] += 1
                if any(matches(pattern, row) for pattern in self.announced):
                    self.broken.append(row)
        for text in texts:
            if "$violation" in text:
                told = text["$violation"]
                self.violations.add((told["frame"], 0, told["record"]["number"]))
            else:
                self.announced[sets(text, START)] += 1


def matches(pattern: Announced, row: dict[str, Any]) -> bool:
    return all(as_number(row[name], START) in numbers for name, numbers in pattern)
