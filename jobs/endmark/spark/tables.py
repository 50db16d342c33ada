"""The Delta tables that a job writes. They are created before Spark starts, and refused if they are not the
checkpoint's.

delta-rs creates a table in 30 ms. Spark took 5 s for four tables, a third of a job's start.
"""

from __future__ import annotations

import errno
import os
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction

from endmark.driver import checkpoint as checkpoints
from endmark.engine import channels
from endmark.engine.delta_files import FileTable
from endmark.engine.streams import arrow_schema, ddl
from endmark.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from deltalake.transaction import RemoveAction
    from pyspark.sql import DataFrame

    from endmark.driver.checkpoint import KnownTable
    from endmark.pipeline import Pipeline

# Delta reads at most this many commits behind a checkpoint of the log. A checkpoint costs a second, and the
# default is one for every tenth commit.
_CHECKPOINT_INTERVAL = "100"


class Table(Protocol):
    """A Delta table by its path and its columns."""

    @property
    def path(self) -> Path: ...

    @property
    def schema(self) -> pa.Schema: ...


@dataclass(frozen=True)
class Target:
    """A Delta table and the channel whose rows it gets.

    Args:
        channel: the channel.
        path: the directory of the table.
        schema: the columns of the table.
        numbered: whether the last column is the number of the batch, which the channel does not have.
    """

    channel: str
    path: Path
    schema: pa.Schema
    numbered: bool = False

    @property
    def brought(self) -> pa.Schema:
        """The columns that the channel has."""
        return self.schema.remove(len(self.schema) - 1) if self.numbered else self.schema

    @property
    def ddl(self) -> str:
        """The columns of `brought`, as Spark's DDL."""
        return ddl(self.brought)

    def files(self, batch_id: int) -> FileTable:
        """Return the table in the form in which the tasks of a batch write its files."""
        return FileTable(self.path, self.schema, batch_id if self.numbered else None)


def targets(pipeline: Pipeline, warehouse: Path) -> list[Target]:
    """Return the tables of a pipeline: six, five without running groups, four without an aggregate."""
    names = pipeline.tables
    results, groups = arrow_schema(pipeline.result_columns()), arrow_schema(pipeline.group_columns())
    aggregated = [Target(channels.GROUPS, warehouse / names.groups, groups)]
    running = arrow_schema(pipeline.running_columns())
    changed = Target(channels.RUNNING, warehouse / names.running, running, numbered=True)
    return [
        Target(channels.RESULTS, warehouse / names.results, results),
        *(aggregated if pipeline.aggregate is not None else []),
        *([changed] if running.names else []),
        Target(
            channels.DEAD_LETTERS,
            warehouse / names.dead_letters,
            channels.DEAD_LETTER_SCHEMA,
        ),
        Target(channels.VIOLATIONS, warehouse / names.violations, channels.VIOLATION_SCHEMA),
        Target(
            channels.ANNOUNCED,
            warehouse / names.punctuations,
            channels.PUNCTUATION_SCHEMA,
        ),
    ]


def prepare(tables: Mapping[str, Table], app_id: str, checkpoint: Path) -> None:
    """Create missing tables; refuse tables that are not the checkpoint's or have other columns.

    If a table is refused, none is created. A checkpoint knows its tables by their Delta ids, so they may be
    moved and restored. A crash may come after tables are created and before the checkpoint knows them. No
    batch has been written then, and the descriptions of the tables name the checkpoint.

    Args:
        tables: tables by a name that never changes; the checkpoint may have other tables, too.
        app_id: the id of the checkpoint.
        checkpoint: the directory of the checkpoint, which is locked.

    Raises:
        ConfigError: a table belongs to another checkpoint, so its rows would be written twice. Or the
            checkpoint has written to another table, so that table's rows would be missing in this one. Or a
            table has other columns than this program writes.
    """
    owner = f"written by {app_id}"
    known = checkpoints.known_tables(checkpoint)
    found = {name: _found(table) for name, table in tables.items()}
    for name, table in tables.items():
        _require_own(table.path, found[name], owner, known.get(name), checkpoint)
        _require_columns(table, found[name])
    ids = {}
    for name, table in tables.items():
        delta = found[name]
        if delta is None:
            delta = _created(table, owner)
        ids[name] = checkpoints.KnownTable(str(delta.metadata().id), str(table.path))
    if known | ids != known:
        checkpoints.know_tables(checkpoint, known | ids)


def _found(table: Table) -> DeltaTable | None:
    return DeltaTable(str(table.path)) if DeltaTable.is_deltatable(str(table.path)) else None


def _created(table: Table, owner: str) -> DeltaTable:
    table.path.mkdir(parents=True, exist_ok=True)
    configuration = {"delta.checkpointInterval": _CHECKPOINT_INTERVAL}
    try:
        return DeltaTable.create(
            str(table.path), table.schema, description=owner, configuration=configuration
        )
    except OSError as error:  # delta-rs writes its errors in colours and over several lines
        cause = " ".join(re.sub(r"\x1b\[\d*m|↳", "", str(error)).split())
        if cause.endswith(f"(os error {errno.ENOSPC})"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(table.path)) from error
        raise ConfigError(
            f"table {table.path} cannot be made: {cause}; name a warehouse that this user can write"
        ) from error


def _require_own(
    path: Path, delta: DeltaTable | None, owner: str, known: KnownTable | None, checkpoint: Path
) -> None:
    found = None if delta is None else str(delta.metadata().id)
    if known is not None and found != known.id:
        wrong = "is missing" if found is None else f"is another one (Delta table {found})"
        raise ConfigError(
            f"table {path} {wrong}, but checkpoint {checkpoint} goes on with Delta table {known.id}, which "
            f"was last at {known.path}; name the directory where that one is now, restore it, or start with "
            "a new checkpoint and an empty warehouse"
        )
    if delta is not None and delta.metadata().description != owner:
        raise ConfigError(
            f"table {path} was written from another checkpoint, and a new one would write its rows "
            "again; use that checkpoint, or an empty warehouse"
        )


def _require_columns(table: Table, delta: DeltaTable | None) -> None:
    if delta is None:
        return
    found, written = [field.name for field in delta.schema().fields], table.schema.names
    if found != written:
        raise ConfigError(
            f"table {table.path} has the columns {', '.join(found)}, but this version writes "
            f"{', '.join(written)}; run the version that made it, or start with a new checkpoint and an "
            "empty warehouse"
        )


class TableLog:
    """The log of a table that files are committed to. It stays open from batch to batch."""

    def __init__(self, path: Path, app_id: str) -> None:
        self._delta = DeltaTable(str(path))
        self._app_id = app_id

    def commit(self, files: Sequence[Mapping[str, Any]], batch_id: int) -> None:
        """Commit files as a version of the table, unless an earlier attempt at the batch has done so.

        Args:
            files: the files, each with `path`, `size` (bytes), `modified` (Unix milliseconds) and `stats`.
            batch_id: the number of the batch.
        """
        self._delta.update_incremental()
        last = self._delta.transaction_version(self._app_id)
        if last is not None and last >= batch_id:
            return
        actions: list[AddAction | RemoveAction] = [
            AddAction(each["path"], each["size"], {}, each["modified"], True, each["stats"]) for each in files
        ]
        done = CommitProperties(app_transactions=[Transaction(self._app_id, batch_id, _now())])
        self._delta.create_write_transaction(actions, "append", self._delta.schema(), commit_properties=done)


def _now() -> int:
    return time.time_ns() // 1_000_000


def append(rows: DataFrame, path: Path, app_id: str, batch_id: int) -> None:
    """Append a batch's rows to a table, unless an earlier attempt has done so.

    Args:
        rows: the rows.
        path: the directory of the table.
        app_id: the id of the query's checkpoint.
        batch_id: the number of the batch.
    """
    writer = rows.write.format("delta").mode("append")
    writer.option("txnAppId", app_id).option("txnVersion", batch_id).save(str(path))
