"""Rewrites records of other formats as flat JSON one at a time, and then parses them together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.wire.rejection import Rejection, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from endmark.state.search import Ints
    from endmark.wire.json_records import JsonParser, Parsed


def parse_translated(
    values: pa.Array, at: Ints, translate: Callable[[bytes], bytes | None], parser: JsonParser
) -> Parsed:
    """Parse the records at these positions.

    Args:
        values: a binary array of records, of any format.
        at: positions in `values`, ascending.
        translate: returns a record as JSON for `parser`, or `None` if it is skipped, and raises
            UnreadableError if it cannot read one.
        parser: the parser of the translated records.
    """
    texts, places, rejections, skipped = [], [], [], 0
    for place, value in zip(at.tolist(), values.take(pa.array(at)).to_pylist(), strict=True):
        try:
            text = translate(value or b"")
        except UnreadableError as why:
            rejections.append(Rejection(place, why.reason, str(why), value))
            continue
        if text is None:
            skipped += 1
        else:
            texts.append(text)
            places.append(place)
    parsed = parser.parse(pa.array(texts, pa.binary()))
    of = np.array(places, np.int64)
    for each in parsed.rejections:
        place = places[each.at]
        rejections.append(replace(each, at=place, value=values[place].as_py()))
    return replace(
        parsed,
        row_at=of[parsed.row_at],
        closed_keys_at=of[parsed.closed_keys_at],
        promises=[(places[number], promise) for number, promise in parsed.promises],
        rejections=sorted(rejections, key=lambda each: each.at),
        skipped=skipped,
    )
