"""Columns of streams that are younger than a checkpoint: which records are read without them.

A record in front of a column's first offset has no value of the column. A member of its name is one that is
not declared, as it was when the job read the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from endmark.pipeline import Stream
from endmark.verify.session import text

# The first offset with a column, by column and partition. A partition that is not named always had it.
FirstOffsets = Mapping[str, Mapping[int, int]]

_EARLY = '("partition" = {partition} AND "offset" < {offset})'


@dataclass(frozen=True)
class AddedColumns:
    """The columns that are younger than a checkpoint.

    Args:
        first_offsets: the first offset with a column, by stream, column and partition.
    """

    first_offsets: Mapping[str, FirstOffsets] = field(default_factory=dict)

    def columns(self, stream: str) -> frozenset[str]:
        """Return the added columns of a stream."""
        return frozenset(self.of(stream))

    def of(self, stream: str) -> FirstOffsets:
        """Return the first offsets of a stream."""
        return self.first_offsets.get(stream, {})

    def declared_at(self, declared: Stream, stream: str, partition: int, offset: int) -> Stream:
        """Return a stream with the columns that it had when the job read one of its records.

        Args:
            declared: the stream with all its columns.
            stream: its name.
            partition, offset: the place of the record.
        """
        early = {column for column, first in self.of(stream).items() if offset < first.get(partition, 0)}
        if early.isdisjoint(declared.columns):
            return declared
        columns = {column: kind for column, kind in declared.columns.items() if column not in early}
        return declared.model_copy(update={"columns": columns})


NOTHING_ADDED = AddedColumns()


def none_early(first_offsets: FirstOffsets) -> str:
    """Return the SQL condition that no member of a record is a column of later offsets.

    Its row has `members`, `partition` and `offset`.
    """
    conditions = [
        f"NOT (list_contains(members, {text(column)}) AND ({early}))"
        for column, first in first_offsets.items()
        if (early := " OR ".join(_EARLY.format(partition=at, offset=end) for at, end in first.items()))
    ]
    return " AND ".join(conditions) or "true"
