"""Judges what a change of a row in Debezium's envelope is, whatever format the envelope has.

If `op` is `c` or `r`, `after` is a row. If it is `u`, `after` is a row if the stream takes updates. If it is
`d`, the envelope is read like a punctuation: it names the values that `before` has in the primary key of the
table. A deletion that names no column has no effect.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.wire.json_reader import mask
from endmark.wire.rejection import Rejection, UnreadableError

if TYPE_CHECKING:
    from endmark.wire.json_records import Parsed

# Debezium sends this text in the place of a value that the database has not logged: PostgreSQL leaves a long
# value out that an update has not changed.
UNAVAILABLE = "__debezium_unavailable_value"


class Change(IntEnum):
    """The meaning of an envelope."""

    ROW = 0
    DELETION = 1
    NOTHING = 2


@dataclass(frozen=True)
class ChangeRules:
    """Rules for the changes of one stream.

    Args:
        updates: whether an update is a row.
        deleted_on: the primary key of the table, which a deletion names. If it is empty, deletions have no
            effect.
    """

    updates: bool
    deleted_on: tuple[str, ...]

    @property
    def row_ops(self) -> str:
        """The values of `op` that stand for a row, each of one letter."""
        return "cru" if self.updates else "cr"

    def of(self, op: str) -> Change:
        """Return what an envelope is by its `op`.

        Raises:
            UnreadableError: it is an update that the stream does not take, or `op` is unknown.
        """
        if op in tuple(self.row_ops):  # `in` on the text would also find "" and "cr"
            return Change.ROW
        if op == "d":
            return Change.DELETION if self.deleted_on else Change.NOTHING
        if op == "u":
            raise UnreadableError(
                "update", "the stream takes no updates; `updates: rows` takes each as a row of its own"
            )
        raise UnreadableError("bad_envelope", f"op {op[:80]!r} is none of c, r, u and d")


def without_unavailable(parsed: Parsed, values: pa.Array) -> Parsed:
    """Reject the rows that lack a value because the connector did not get it.

    Args:
        parsed: the rows of some changes.
        values: the bytes of all records.
    """
    rejections, left = [], np.ones(parsed.rows.num_rows, bool)
    for name, column in zip(parsed.rows.schema.names, parsed.rows.columns, strict=True):
        if not pa.types.is_string(column.type):
            continue
        for place in np.flatnonzero(mask(pc.equal(column, UNAVAILABLE)) & left).tolist():
            at = int(parsed.row_at[place])
            rejections.append(Rejection(at, "unavailable", _unavailable(name), values[at].as_py()))
            left[place] = False
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


def no_envelope(member: str, what: str) -> UnreadableError:
    """Return the error of an envelope in which a member is missing or has another type.

    Args:
        member: the name of the member.
        what: the type that it has in an envelope, such as `an object`.
    """
    return UnreadableError("bad_envelope", f"an envelope has {member!r}, which is {what} here")
