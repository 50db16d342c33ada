"""The log of a Delta table by delta-rs: the files of a version, and the commit of the next version."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from endmark.engine.delta_partitions import spelled
from endmark.errors import ConfigError
from endmark.pipeline.tables import FINAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from deltalake import DeltaTable, Transaction

    from endmark.engine.delta_partitions import Values

_CONSTRAINT = "delta.constraints."
# The types of columns whose bounds the log has exactly, or wider, and how its JSON is read.
_READ: dict[pa.DataType, Callable[[Any], Any]] = {
    **dict.fromkeys([pa.int8(), pa.int16(), pa.int32(), pa.int64()], int),
    pa.string(): str,
    pa.date32(): date.fromisoformat,
}


@dataclass(frozen=True)
class DataFile:
    """A data file of a table.

    Args:
        path: its path below the table's directory, as the log has it: a URL's.
        size: its size in bytes.
        partition: the values of its partition.
        rows: the number of its rows; `None` if the log does not say.
        bounds: the least and the greatest value of columns whose bounds the log has exactly, or wider.
    """

    path: str
    size: int
    partition: Values
    rows: int | None = None
    bounds: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    @property
    def is_final(self) -> bool:
        """True if a table of running groups is upserted, and the file has final groups."""
        return self.partition.get(FINAL) == "true"


def data_files(table: DeltaTable) -> Iterator[DataFile]:
    """Yield the files of the version of a table that was read."""
    for file in pa.table(table.get_add_actions()).to_pylist():
        values = {name: spelled(value) for name, value in (file.get("partition") or {}).items()}
        yield DataFile(file["path"], file["size_bytes"], values, file.get("num_records"), _bounds(file))


def _bounds(file: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the bounds of a file's columns. The log rounds times to milliseconds, and may round decimals."""
    least, most = (file.get(bound) or {} for bound in ("min", "max"))
    return {
        name: (value, most[name])
        for name, value in least.items()
        if type(value) in (int, str, date) and most.get(name) is not None
    }


def data_file(entry: Mapping[str, Any], schema: pa.Schema) -> DataFile:
    """Return the file of an entry that `write_files` has returned, as `data_files` yields it.

    Args:
        entry: the entry.
        schema: the columns of the table.
    """
    stats = json.loads(entry["stats"])
    bounds = {
        name: (_READ[kind](value), _READ[kind](stats["maxValues"][name]))
        for name, value in stats.get("minValues", {}).items()
        if (kind := schema.field(name).type) in _READ
    }
    return DataFile(entry["path"], entry["size"], entry["partition"], stats["numRecords"], bounds)


def replace_files(
    table: DeltaTable,
    plan: Callable[[], tuple[Iterable[Mapping[str, Any]], Iterable[DataFile]] | None],
    *,
    data_change: bool,
    transactions: Sequence[Transaction] = (),
) -> None:
    """Commit the version after the one by which files were planned; plan again if somebody else commits it.

    Args:
        table: the table.
        plan: returns the entries of the files to add, and the files to remove, by the version that was read;
            `None` if there is nothing to commit any more.
        data_change: whether the rows of the table change, too.
        transactions: the transactions of the commit.

    Raises:
        CommitFailedError: the commit failed, though nobody else has committed.
    """
    while (planned := plan()) is not None:
        read = table.version()
        try:
            # Without retries, delta-rs commits the version after the one that was read, or none.
            commit_files(table, *planned, data_change=data_change, transactions=transactions, retries=0)
        except CommitFailedError:
            table.update_incremental()
            if table.version() == read:
                raise
        else:
            return


def require_unconstrained(table: DeltaTable) -> None:
    """Refuse a table whose rows somebody wants to be checked, since a job does not check them.

    Raises:
        ConfigError: the table has a constraint.
    """
    named = [key for key in table.metadata().configuration if key.startswith(_CONSTRAINT)]
    if named:
        raise ConfigError(
            f"table {table.table_uri} has the constraint {named[0].removeprefix(_CONSTRAINT)!r}, which a job "
            "does not check; drop it by ALTER TABLE ... DROP CONSTRAINT, and filter rows by `where`"
        )


def commit_files(
    table: DeltaTable,
    added: Iterable[Mapping[str, Any]],
    removed: Iterable[DataFile] = (),
    *,
    data_change: bool = True,
    transactions: Sequence[Transaction],
    retries: int | None = None,
) -> None:
    """Commit a version with some files more and some files less.

    The history of the table shows the rows, files and bytes of the version as `operationMetrics`, by the
    names that Spark's Delta uses.

    Args:
        table: the table.
        added: the entries of the files to add, as `write_files` returns them.
        removed: the files to remove; none for an append.
        data_change: whether the rows of the table change, too.
        transactions: the transactions of the commit.
        retries: attempts after the first one, if somebody else commits; `None` for the default of delta-rs.

    Raises:
        CommitFailedError: another commit conflicts with this one, or retries are used up.
        ConfigError: somebody has given the table a constraint.
    """
    require_unconstrained(table)
    now = time.time_ns() // 1_000_000
    added, removed = list(added), list(removed)
    properties = CommitProperties({"operationMetrics": metrics(added, removed)}, retries, list(transactions))
    actions: list[AddAction | RemoveAction] = [
        AddAction(each["path"], each["size"], each["partition"], each["modified"], data_change, each["stats"])
        for each in added
    ]
    actions += [
        RemoveAction(unquote(each.path), data_change, now, each.size, each.partition) for each in removed
    ]
    partitions = table.metadata().partition_columns
    table.create_write_transaction(
        actions, "append", table.schema(), partition_by=partitions, commit_properties=properties
    )


def metrics(added: Sequence[Mapping[str, Any]], removed: Sequence[DataFile] = ()) -> dict[str, str]:
    """Return the `operationMetrics` of a commit, given the entries of its new files and the removed files."""
    numbers = {
        "numFiles": len(added),
        "numOutputRows": sum(json.loads(file["stats"])["numRecords"] for file in added),
        "numOutputBytes": sum(file["size"] for file in added),
        "numRemovedFiles": len(removed),
        "numRemovedBytes": sum(file.size for file in removed),
    }
    return {name: str(number) for name, number in numbers.items()}  # Spark's Delta reads texts
