"""Spells expected values of partition columns as Delta has them: an empty text is null."""

from __future__ import annotations

from endmark.pipeline import Pipeline
from endmark.types import ColumnType
from endmark.verify.session import Session, name

_EMPTY = "UPDATE $table SET $column = NULL WHERE $column = ''"


def spell_partitions(session: Session, pipeline: Pipeline) -> None:
    """Replace empty texts in the partition columns of the expected tables by null."""
    # These have rows that may or may not be in the table.
    uncertain = ("results", *(groups.final_role for groups in pipeline.groups))
    for role, table in pipeline.outputs.tables_by_role.items():
        kinds = pipeline.outputs.columns_of(role)
        for column in table.partition_by:
            if kinds[column] == ColumnType.STRING:
                for known in ("expected", "uncertain") if role in uncertain else ("expected",):
                    session.run(_EMPTY, table=name(f"{known}_{role}"), column=name(column))
