"""Puts together what several readers have found among the records of one Arrow array."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.state.search import Ints
    from endmark.wire.json.records import Parsed


def merged(pieces: Sequence[Parsed]) -> Parsed:
    """Merge what readers found, in the order of the records. Each record is in one piece.

    Args:
        pieces: at least one; the closed keys of the last one have the columns of the key.
    """
    row_at = np.concatenate([piece.row_at for piece in pieces])
    closed_keys_at = np.concatenate([piece.closed_keys_at for piece in pieces])
    last = pieces[-1]
    named = [piece.closed_keys for piece in pieces if piece.closed_keys.num_columns]
    return replace(
        last,
        rows=_ordered([piece.rows for piece in pieces], row_at),
        row_at=np.sort(row_at),
        closed_keys=_ordered(named, closed_keys_at) if named else last.closed_keys,
        closed_keys_at=np.sort(closed_keys_at),
        promises=sorted((each for piece in pieces for each in piece.promises), key=lambda each: each[0]),
        rejections=sorted((each for piece in pieces for each in piece.rejections), key=lambda each: each.at),
        skipped=sum(piece.skipped for piece in pieces),
        extra=sum(piece.extra for piece in pieces),
    )


def _ordered(batches: list[pa.RecordBatch], at: Ints) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches)
    if (np.diff(at) < 0).any():
        table = table.take(pa.array(np.argsort(at)))
    return next(iter(table.combine_chunks().to_batches()), batches[0].slice(0, 0))


def repositioned(parsed: Parsed, positions: Ints, values: pa.Array | None = None) -> Parsed:
    """Return what a reader found among some records or their translations, by the positions of the records.

    Args:
        parsed: what it found.
        positions: the position of each record that it read, ascending.
        values: all records. A rejection has the bytes that came, and not their translation. `None` leaves
            the values of rejections as they are.
    """
    rejections = [replace(each, at=int(positions[each.at])) for each in parsed.rejections]
    if values is not None:
        rejections = [replace(each, value=values[each.at].as_py()) for each in rejections]
    return replace(
        parsed,
        row_at=positions[parsed.row_at],
        closed_keys_at=positions[parsed.closed_keys_at],
        promises=[(int(positions[number]), promise) for number, promise in parsed.promises],
        rejections=rejections,
    )
