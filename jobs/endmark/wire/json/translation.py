"""Rewrites records of other formats as flat JSON one at a time, and then parses them together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.wire.merging import repositioned
from endmark.wire.rejection import Rejection, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from endmark.state.search import Ints
    from endmark.wire.json.records import JsonParser, Parsed


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
    texts, positions, rejections, skipped = [], [], [], 0
    for position, value in zip(at.tolist(), values.take(pa.array(at)).to_pylist(), strict=True):
        try:
            text = translate(value or b"")
        except UnreadableError as why:
            rejections.append(Rejection(position, why.reason, str(why), value))
            continue
        if text is None:
            skipped += 1
        else:
            texts.append(text)
            positions.append(position)
    parsed = repositioned(parser.parse(pa.array(texts, pa.binary())), np.array(positions, np.int64), values)
    rejections = sorted([*rejections, *parsed.rejections], key=lambda each: each.at)
    return replace(parsed, rejections=rejections, skipped=skipped)
