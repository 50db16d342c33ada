"""The Delta tables of a pipeline: their names, how rows are written to them, and how files are laid out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from endmark.domain import Domain
from endmark.pipeline.change_rules import Change, ChangeRule, Pinned
from endmark.pipeline.fields import AnyNames, Model, Name, require_column, require_key_column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endmark.types import ColumnType

FINAL = "final"  # the column of running groups that says whether a row is the group's last one

# Properties of a Delta table: the id of the checkpoint that writes it, and its first batch if it is younger.
OWNER, SINCE = "endmark.checkpoint", "endmark.sinceBatch"

TABLES = ChangeRule(
    change=Change.RESTART,
    remark="a table gets rows from then on; one that is taken out gets none any more, and does not come back",
)
_AT_UPKEEP = ChangeRule(change=Change.RESTART, remark="`endmark maintain` reads it, the job does not")


RESERVED = ("dead_letters", "violations", "punctuations")  # tables that each pipeline writes
_STEP, _LATEST, _DELETED, _FINAL, _RUNNING = "step:", "latest:", "deleted:", "groups:", "running:"


def step_role(step: str) -> str:
    """Return the kind of the rows of a stream or step in front of the results, given its name."""
    return f"{_STEP}{step}"


def latest_role(step: str) -> str:
    """Return the kind of the rows of a stream or step of which a table has the newest of each key."""
    return f"{_LATEST}{step}"


def deleted_role(step: str) -> str:
    """Return the kind of the keys that deletions remove from a table of the newest rows of each key."""
    return f"{_DELETED}{step}"


def final_role(step: str) -> str:
    """Return the kind of the rows of final groups, given the name of the aggregate."""
    return f"{_FINAL}{step}"


def running_role(step: str) -> str:
    """Return the kind of the rows of groups so far, given the name of the aggregate."""
    return f"{_RUNNING}{step}"


def group_role(step: str, mode: str) -> str:
    """Return the kind of the rows of an aggregate that a table or topic gets.

    Args:
        step: the name of the aggregate.
        mode: `append` for final groups; otherwise groups so far.
    """
    return final_role(step) if mode == "append" else running_role(step)


def step_of(role: str) -> str:
    """Return the name of the stream or step of a kind of rows."""
    return role.partition(":")[2]


def is_latest_role(role: str) -> bool:
    """Return whether a table of this kind of rows has the newest row of each key."""
    return role.startswith(_LATEST)


def is_step_role(role: str) -> bool:
    """Return whether rows of a kind come from a stream or step, and not from the last ones."""
    return role.startswith((_STEP, _LATEST, _DELETED))


def is_group_role(role: str) -> bool:
    """Return whether rows of a kind are those of an aggregate."""
    return role.startswith((_FINAL, _RUNNING))


def is_running_role(role: str) -> bool:
    """Return whether rows of a kind are groups so far."""
    return role.startswith(_RUNNING)


def kind_of(role: str) -> str:
    """Return a kind of rows without the name of the stream or step."""
    return role.partition(":")[0]


class Table(Model):
    """A Delta table. Its name is its directory under the warehouse.

    It has the rows of the stream or step `from`, by default those of the step of the table's own name. Rows
    of a stream, row step or lookup come to the table when the join takes them, since only then it is known
    that they are no violations.

    An aggregate has rows of three kinds. With `mode: append` the table gets the final row of each group. With
    `mode: changes` it gets a row of each group after each batch that had results of the group: the measures
    so far, the number of the `batch`, and whether the row is the group's last one (`final`). `mode: upsert`
    is the same, but the newer row replaces the older one, so each group has one row. This table is
    partitioned by `final`, too: a batch rewrites files of open groups, and never those of final ones.

    The records of a stream may be changes. With `mode: upsert`, a table of the stream, a row step or a lookup
    has the newest row of each value of `key`. A deletion of a Debezium stream removes the row of its key. The
    key is the one by which the job distributes rows: that of the join, or of a stream alone.

    `partition_by` names columns for Delta to partition by: rows of one file have one value in each of them.
    So readers that ask for a value open the files of this value alone. Choose columns of few values, since a
    batch writes a file for each. Delta has no empty text in such a column: it is read as null.

    `endmark maintain` sorts the rows of files that it merges along a z-order of the columns `cluster_by`. So
    readers that ask for a range of one of them skip most files.
    """

    source: Pinned[Annotated[Name | None, Field(alias="from")]] = None
    mode: Pinned[Literal["append", "changes", "upsert"]] = "append"
    key: Pinned[AnyNames] = ()
    partition_by: Pinned[AnyNames] = ()
    cluster_by: Annotated[AnyNames, _AT_UPKEEP] = ()

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns that Delta partitions the table by."""
        groups = self.mode == "upsert" and not self.key
        return (*self.partition_by, FINAL) if groups else self.partition_by


def _of_step(value: Any) -> Any:
    return {} if value is None else value


AnyTable = Annotated[Table, BeforeValidator(_of_step, json_schema_input_type=Table | None)]


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
    if table.mode != "append" and FINAL in table.partition_by:
        raise ValueError(f"{field}.partition_by: leave {FINAL!r} to mode: upsert, which partitions by it")
    if set(table.partition_columns) == set(columns):
        raise ValueError(
            f"{field}.partition_by: these are all columns of the table; leave one out for its files"
        )
    if table.cluster_by:
        _require_clustering(table, columns, field)


def _require_clustering(table: Table, columns: Mapping[str, ColumnType], field: str) -> None:
    if table.mode == "upsert":
        other = "append" if table.key else "changes"
        raise ValueError(
            f"{field}.cluster_by: leave it out, or choose mode: {other}, whose files can be sorted"
        )
    for name in table.partition_by:
        if columns[name].domain is Domain.TIMESTAMP:
            raise ValueError(
                f"{field}.cluster_by: delta-rs, which sorts the rows, writes column {name!r} of partition_by "
                "without its zone, and Spark would read another time; leave one of the two out"
            )
    for name in table.cluster_by:
        require_column(columns, name, f"{field}.cluster_by")
        if columns[name].many or name in table.partition_columns:
            why = f"is {columns[name]}" if columns[name].many else "has one value in each file anyhow"
            raise ValueError(f"{field}.cluster_by: column {name!r} {why}; leave it out")
