"""Rejects rows in which a connector has put Debezium's mark in the place of a value that it did not get.

Rows of every format may have the mark, since a transform may have made them of Debezium's envelopes.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.wire.json.reader import mask
from endmark.wire.rejection import Rejection

if TYPE_CHECKING:
    from endmark.wire.json.records import Parsed

# Debezium sends this text in the place of a value that the database has not logged: PostgreSQL leaves a long
# value out that an update has not changed. In the place of bytes, the text is written as bytes are.
_MARK = b"__debezium_unavailable_value"
_MARKS = pa.array([_MARK.decode(), b64encode(_MARK).decode(), _MARK.hex()])


def without_unavailable(parsed: Parsed, values: pa.Array) -> Parsed:
    """Reject the rows that lack a value because the connector did not get it.

    Args:
        parsed: the parsed records.
        values: the bytes of all records.
    """
    rejections, left = [], np.ones(parsed.rows.num_rows, bool)
    for name, column in zip(parsed.rows.schema.names, parsed.rows.columns, strict=True):
        if not pa.types.is_string(column.type):
            continue
        for row in np.flatnonzero(mask(pc.is_in(column, _MARKS)) & left).tolist():
            at = int(parsed.row_at[row])
            rejections.append(Rejection(at, "unavailable", _unavailable(name), values[at].as_py()))
            left[row] = False
    if not rejections:
        return parsed
    return replace(
        parsed,
        rows=parsed.rows.filter(pa.array(left)),
        row_at=parsed.row_at[left],
        rejections=sorted([*parsed.rejections, *rejections], key=lambda each: each.at),
    )


def _unavailable(column: str) -> str:
    return (
        f"the connector did not get the value of {column!r}; let the table log whole rows by ALTER TABLE ... "
        "REPLICA IDENTITY FULL"
    )
