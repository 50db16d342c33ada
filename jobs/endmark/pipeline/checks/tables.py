"""Checks of tables: the rows of each, its layout, and the names of its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.domain import Domain
from endmark.pipeline.checks.upserted_rows import require_replaceable
from endmark.pipeline.checks.written_rows import require_written
from endmark.pipeline.tables import RESERVED, is_group_role, is_latest_role, require_layout

if TYPE_CHECKING:
    from endmark.pipeline.model import Pipeline
    from endmark.pipeline.tables import Table


def check_names(pipeline: Pipeline) -> None:
    """Check that columns of a table or topic have names that differ by more than their case."""
    for field, columns in pipeline.outputs.column_names().items():
        seen: dict[str, str] = {}
        for name in columns:  # Spark and Delta ignore the case of letters in names
            if (other := seen.setdefault(name.lower(), name)) != name or columns.count(name) > 1:
                raise ValueError(
                    f"{field}: columns {other!r} and {name!r} are one to Spark and Delta; "
                    "rename a stream, a relation, a column or a measure"
                )


def check_tables(pipeline: Pipeline) -> None:
    """Check that there is a table or topic, that their names differ, and that no two have the same rows."""
    if not pipeline.tables and not pipeline.publish:
        raise ValueError(
            f"tables: no table has the rows of {pipeline.flow.last}; name one, such as "
            f"tables: {{{pipeline.flow.last}: {{}}}}"
        )
    written: dict[str, str] = {}
    for name in [*RESERVED, *pipeline.tables]:  # some file systems ignore the case of letters, too
        if (other := written.setdefault(name.lower(), name)) != name or (
            name in RESERVED and name in pipeline.tables
        ):
            raise ValueError(f"tables.{name}: {other!r} is another table's name too; rename one")
    roles: dict[str, str] = {}
    for name, table in pipeline.tables.items():
        role = pipeline.outputs.role_of(name, table)
        if (other := roles.setdefault(role, name)) != name:
            source, mode = table.source or name, pipeline.tables[other].mode
            raise ValueError(
                f"tables.{name}: {other} has the same rows of {source}; leave one out"
                if mode == table.mode
                else f"tables.{name}: {other} has the groups of {source} so far, too, by mode: {mode}; leave "
                "one of the two out, or write mode: append for the final groups"
            )
        _check_table(pipeline, name, table, role)
    for groups in pipeline.all_groups:
        if not (groups.is_final or groups.is_running):
            raise ValueError(
                f"steps.{groups.step}: no table or topic has its groups; add tables.{groups.step}: {{}}, or "
                "leave the step out"
            )


def _check_table(pipeline: Pipeline, name: str, table: Table, role: str) -> None:
    source, field = table.source or name, f"tables.{name}"
    if not is_group_role(role):
        require_written(pipeline, source, field)
    require_layout(table, pipeline.outputs.columns_of(role), field)
    if is_latest_role(role):
        require_replaceable(pipeline, source, table, field)
    elif table.key:
        raise ValueError(
            f"{field}.key: it is for mode: upsert of a stream, a row step or a lookup; leave it out"
        )
    if table.mode != "append":
        _check_partitions(pipeline, role, table, f"{field}.partition_by")


def _check_partitions(pipeline: Pipeline, role: str, table: Table, field: str) -> None:
    """Refuse partitions by which two keys of a table of newest rows or running groups would be one."""
    columns = pipeline.outputs.columns_of(role)
    of_nulls = {groups.running_role: groups.key for groups in (*pipeline.regrouped, *pipeline.rollups)}
    key = pipeline.outputs.key_of(role) if table.key else of_nulls.get(role, ())
    for name in table.partition_by:
        if name in key and columns[name].domain is Domain.STRING:
            raise ValueError(
                f"{field}: column {name!r} is a text of the key, and Delta reads an empty text there as "
                "null, which is another key; leave it out"
            )
