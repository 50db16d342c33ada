"""Spells expected values of partition columns as Delta has them: an empty text is null."""

from __future__ import annotations

from endmark.pipeline import Pipeline
from endmark.types import ColumnType
from endmark.verify.session import Session, name

_EMPTY = "UPDATE $table SET $column = NULL WHERE $column = ''"
_TABLES = {
    "results": ("expected_results", "uncertain_results"),
    "groups": ("expected_groups", "uncertain_groups"),
    "running": ("expected_running",),
}


def spell_partitions(session: Session, pipeline: Pipeline) -> None:
    """Replace empty texts in the partition columns of the expected tables by null."""
    columns = {
        "results": pipeline.result_columns(),
        "groups": pipeline.group_columns(),
        "running": pipeline.running_columns(),
    }
    for field, table in pipeline.laid_out.items():
        for column in table.partition_by:
            if columns[field][column] == ColumnType.STRING:
                for expected in _TABLES[field]:
                    session.run(_EMPTY, table=name(expected), column=name(column))
