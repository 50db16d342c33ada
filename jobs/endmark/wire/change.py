"""Judges what a change of a row in Debezium's envelope is, whatever format the envelope has.

If `op` is `c` or `r`, `after` is a row. If it is `u`, `after` is a row if the stream takes updates. If it is
`d`, the envelope is read like a punctuation: it names the values that `before` has in the primary key of the
table. A deletion that names no column has no effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from endmark.wire.rejection import UnreadableError


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
        if op == "t":
            raise UnreadableError(
                "bad_envelope",
                "op 't' says that the table was emptied, which removes no row here; let the connector leave "
                "it out by `skipped.operations`",
            )
        raise UnreadableError("bad_envelope", f"op {op[:80]!r} is none of c, r, u and d")


def no_envelope(member: str, what: str) -> UnreadableError:
    """Return the error of an envelope in which a member is missing or has another type.

    Args:
        member: the name of the member.
        what: the type that it has in an envelope, such as `an object`.
    """
    return UnreadableError("bad_envelope", f"an envelope has {member!r}, which is {what} here")
