"""The punctuations of a world's events, in the form that a join takes: closed keys and promises."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from endmark.punctuation import pattern as punctuation
from endmark.punctuation.punctuation import Origin, Punctuation
from support.stream_join_keys import KeyKind
from support.stream_join_world import Event, Pattern

Tagged = tuple[int, int, Event]  # partition, offset, event


def closed_keys(key: KeyKind, tagged: Sequence[Tagged], numbers: Iterable[int]) -> pa.RecordBatch | None:
    """Return the keys that events close, with their place; `None` without an event.

    Args:
        key: the kind of the keys.
        tagged: events that name keys.
        numbers: the key numbers of the world.
    """
    if not tagged:
        return None
    named = [
        (number, partition, offset)
        for partition, offset, event in tagged
        for number in numbers
        if event.closes(key, number)
    ]
    columns = [
        *key.columns([number for number, _, _ in named]),
        pa.array([partition for _, partition, _ in named], pa.int64()),
        pa.array([offset for _, _, offset in named], pa.int64()),
    ]
    return pa.record_batch(columns, names=[*key.spec("").shared.columns, "partition", "offset"])


def promise(key: KeyKind, tagged: Tagged, side: str) -> Punctuation:
    """Return an event with patterns as a promise of a side."""
    partition, offset, event = tagged
    names = key.spec("").shared.columns
    patterns = {name: _pattern(key, event.patterns[at], at) for at, name in enumerate(names)}
    return Punctuation.of(side, patterns, Origin(partition, offset))


def _pattern(key: KeyKind, pattern: Pattern, column: int) -> punctuation.Pattern:
    def value(number: int | None) -> Any:
        return None if number is None else key.value(number)[column]

    if pattern.among is not None:
        return punctuation.OneOf(frozenset(map(value, pattern.among)))
    return punctuation.Between(value(pattern.low), value(pattern.high), pattern.low_open, pattern.high_open)
