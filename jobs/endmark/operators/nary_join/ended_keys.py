"""Ended keys: keys of which no result can come any more, since a side has closed them and holds no row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.state.keys import Keys
    from endmark.state.search import Bools
    from endmark.state.segment_list import SegmentList


def without_rows(
    keys: Keys, closed: Sequence[Bools], rows: Sequence[SegmentList], asked: Bools | None = None
) -> Bools:
    """Return a mask of the keys that some side has closed without holding a row of them.

    Args:
        keys: the keys.
        closed: for each side, a mask of the keys that it has closed.
        rows: the rows that each side holds.
        asked: a mask of the keys that matter; `None`: all of them.
    """
    found = np.zeros(len(keys), bool)
    for mask, held in zip(closed, rows, strict=True):
        at = np.flatnonzero(mask & ~found if asked is None else mask & ~found & asked)
        if len(at):
            found[at] = ~held.contains(keys.take(at))
    return found
