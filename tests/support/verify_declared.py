"""What a stream declares of its rows, by definition."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from endmark.pipeline import Stream
from support.verify_fates import Key


def precedes(stream: Stream, key: Key, other: Key) -> bool:
    """Whether a key must not come after another, by the order of its stream."""
    for direction in stream.ordered.values():
        return key < other if direction == "ascending" else key > other
    return False


def end_of_run(stream: Stream, rows: Sequence[tuple[int, Key]], key: Key) -> int | None:
    """The offset of the row that ends the first run of a key, given those of a partition of a clustered
    stream with their offsets."""
    ends = (offset for (_, before), (offset, now) in pairwise(rows) if before == key != now)
    return next(ends, None) if stream.clustered else None


def is_behind(ended: int | None, offset: int, names: Sequence[int]) -> bool:
    """Whether a row comes after the end of its key's run, and no punctuation names the key before that."""
    return ended is not None and ended < min([*names, offset])
