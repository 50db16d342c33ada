"""The Delta tables of a pipeline: their names, how rows are written to them, and how files are laid out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, model_validator

from endmark.pipeline.change_rules import Change, ChangeRule, Pinned
from endmark.pipeline.fields import AnyNames, Model, Name, require_column, require_key_column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endmark.types import ColumnType

FINAL = "final"  # the column of running groups that says whether a row is the group's last one

_AT_UPKEEP = ChangeRule(change=Change.RESTART, remark="`endmark maintain` reads it, the job does not")


class Table(Model):
    """A Delta table. Its `name` is its directory under the warehouse, by default the name of the field.

    `partition_by` names columns for Delta to partition by: rows of one file have one value in each of them.
    So readers that ask for a value open the files of this value alone. Choose columns of few values, since a
    batch writes a file for each. Delta has no empty text in such a column: it is read as null.

    `endmark maintain` sorts the rows of files that it merges along a z-order of the columns `cluster_by`. So
    readers that ask for a range of one of them skip most files.
    """

    name: Pinned[Name | None] = None
    partition_by: Pinned[AnyNames] = ()
    cluster_by: Annotated[AnyNames, _AT_UPKEEP] = ()

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns that Delta partitions the table by."""
        return self.partition_by


class RunningTable(Table):
    """The Delta table of running groups.

    With `mode: append` it gets a row of each group after each batch that changed the group. With
    `mode: upsert` the newer row replaces the older one, so each group has one row. An upserted table is
    partitioned by `final`, too: a batch rewrites files of open groups, and never those of final ones.
    """

    mode: Pinned[Literal["append", "upsert"]] = "append"

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns that Delta partitions the table by."""
        return self.partition_by if self.mode == "append" else (*self.partition_by, FINAL)


def _named(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


_AnyTable = Annotated[Table, BeforeValidator(_named, json_schema_input_type=Table | str)]
_AnyRunningTable = Annotated[RunningTable, BeforeValidator(_named, json_schema_input_type=RunningTable | str)]


class Tables(Model):
    """The Delta tables under the warehouse directory. A table may be written as its name alone."""

    results: _AnyTable = Table()
    groups: _AnyTable = Table()
    running: _AnyRunningTable = RunningTable()
    dead_letters: Pinned[Name] = "dead_letters"
    violations: Pinned[Name] = "violations"
    punctuations: Pinned[Name] = "punctuations"

    @property
    def laid_out(self) -> dict[str, Table]:
        """The tables whose columns are the pipeline's, by field."""
        return {"results": self.results, "groups": self.groups, "running": self.running}

    @property
    def directories(self) -> dict[str, str]:
        """The directory of each table under the warehouse, by field."""
        found = {field: table.name or field for field, table in self.laid_out.items()}
        return found | {
            field: getattr(self, field) for field in ("dead_letters", "violations", "punctuations")
        }

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        tables = self.directories
        if twice := next(
            (name for name, table in tables.items() if list(tables.values()).count(table) > 1), None
        ):
            raise ValueError(f"{twice}: {tables[twice]!r} is another table's name too; rename one")
        return self


def require_layout(table: Table, columns: Mapping[str, ColumnType], field: str) -> None:
    """Refuse a layout that the files of a table cannot have.

    Args:
        table: the table.
        columns: the types of the table's columns, by name.
        field: the field of the table, for the error.

    Raises:
        ValueError: a column of `partition_by` or `cluster_by` does not exist or has the wrong type, or no
            column is left for the files.
    """
    for name in table.partition_by:
        require_column(columns, name, f"{field}.partition_by")
        if columns[name].many:
            raise ValueError(
                f"{field}.partition_by: column {name!r} is {columns[name]}; name one of single values"
            )
        require_key_column(columns, name, f"{field}.partition_by")
        if columns[name].scale:  # it makes `0.-50` of -0.50, and its datasets cannot be opened
            raise ValueError(
                f"{field}.partition_by: column {name!r} is {columns[name]}, and delta-rs misreads fractions "
                "between -1 and 0 there; name one of another type"
            )
    if isinstance(table, RunningTable) and FINAL in table.partition_by:
        raise ValueError(f"{field}.partition_by: leave {FINAL!r} to mode: upsert, which partitions by it")
    if set(table.partition_columns) == set(columns):
        raise ValueError(
            f"{field}.partition_by: these are all columns of the table; leave one out for its files"
        )
    if table.cluster_by and FINAL in table.partition_columns:
        raise ValueError(
            f"{field}.cluster_by: leave it out, or choose mode: append, whose files can be sorted"
        )
    for name in table.cluster_by:
        require_column(columns, name, f"{field}.cluster_by")
        if columns[name].many or name in table.partition_columns:
            why = f"is {columns[name]}" if columns[name].many else "has one value in each file anyhow"
            raise ValueError(f"{field}.cluster_by: column {name!r} {why}; leave it out")
