"""Histories of two frames, and what a join of them says about these in its column of punctuations."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from endmark.punctuation.pattern import Equals
from endmark.punctuation.wire_json import pattern_to_json
from support.frame_tasks import COLUMN, Rows, said
from support.output_world import SIDES, Event, History, Place, Side
from support.times import LONGS, SMALL, Sets, Spellings, times

START = datetime(2026, 1, 1, tzinfo=UTC)
USUAL = Spellings(SMALL[0], LONGS, times(START))


def schema_of(spelled: Spellings) -> pa.Schema:
    """The columns of a frame."""
    kinds = {name: spelled.of(name).kind for name in ("key", "value", "time")}
    return pa.schema([(name, kinds.get(name, pa.int64())) for name in ("key", "value", "number", "time")])


SCHEMA = schema_of(USUAL)
NOTHING: dict[Side, Rows] = {"left": [], "right": []}
Announced = Sets  # an output punctuation


def of_frames(history: History, spelled: Spellings = USUAL) -> History:
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
        events.sort(
            key=lambda event: (event.time is None, event.time or 0, json.dumps(_texts(event, spelled)))
        )
        batches.append(events)
    return replace(history, batches=batches, partitions=dict.fromkeys(SIDES, 1), timed=history.keyed)


def batches(history: History, spelled: Spellings = USUAL) -> Iterator[dict[Side, Rows]]:
    """Yield the rows of each frame, batch by batch."""
    for placed in history.placed():
        yield {side: [_row(*each, spelled) for each in placed if each[0].side == side] for side in SIDES}


def _row(event: Event, place: Place, spelled: Spellings) -> dict[str, Any]:
    if event.time is not None:
        numbers = {"key": event.key, "value": event.value, "time": event.time}
        return {name: spelled.of(name).value(each) for name, each in numbers.items()} | {"number": place[1]}
    return said(_texts(event, spelled))


def _texts(event: Event, spelled: Spellings) -> dict[str, Any]:
    patterns = event.patterns or (("key", Equals(event.key)),)
    return {
        name: pattern_to_json(spelled.of(name).pattern(each), spelled.of(name).domain)
        for name, each in patterns
    }


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
    """The output of a join, batch by batch, in the spellings of its world.

    `broken` are results that match an output punctuation of an earlier batch, which is never.
    """

    def __init__(self, spelled: Spellings = USUAL) -> None:
        self._spelled = spelled
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
                if any(matches(pattern, row, self._spelled) for pattern in self.announced):
                    self.broken.append(row)
        for text in texts:
            if "$violation" in text:
                told = text["$violation"]
                self.violations.add((told["frame"], 0, told["record"]["number"]))
            else:
                self.announced[self._spelled.sets(text)] += 1


def matches(pattern: Announced, row: dict[str, Any], spelled: Spellings = USUAL) -> bool:
    return all(spelled.of(name).number(row[name]) in numbers for name, numbers in pattern)
