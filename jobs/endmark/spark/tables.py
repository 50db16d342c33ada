"""The Delta tables a job writes: made before Spark starts, and refused when they are another checkpoint's.

Made with delta-rs: it takes 30 ms for a table where Spark takes 5 s for the four, a third of a job's start.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.schema import Schema
from deltalake.transaction import AddAction

from endmark.errors import ConfigError
from endmark.spark.packing import channels
from endmark.spark.packing.delta_files import FileTable
from endmark.spark.streams import arrow_schema, ddl

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from deltalake.transaction import RemoveAction
    from pyspark.sql import DataFrame

    from endmark.pipeline import Pipeline

# Delta lists and replays this many commits at worst; every tenth, the default, would cost a second each.
_CHECKPOINT_INTERVAL = "100"
ADDED = "null in rows written before the column was added"


class Table(Protocol):
    """A Delta table: where it is, and its columns."""

    @property
    def path(self) -> Path: ...

    @property
    def schema(self) -> pa.Schema: ...


@dataclass(frozen=True)
class Target:
    """A Delta table and the channel it is fed from; `numbered` says that its last column is the number of the
    batch, which the channel does not know."""

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
        """Of `brought`."""
        return ddl(self.brought)

    def files(self, batch_id: int) -> FileTable:
        """The table as tasks of a batch need it, which write its files."""
        return FileTable(self.path, self.schema, batch_id if self.numbered else None)


def targets(pipeline: Pipeline, warehouse: Path) -> list[Target]:
    """The six tables of a pipeline, five without running groups, four without an aggregate."""
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


def prepare(tables: Iterable[Table], app_id: str) -> None:
    """Make missing tables, add columns that later versions have; refuse tables that another checkpoint wrote.

    A column that was added is null in older rows, and its comment says so.

    Raises:
        ConfigError: a table belongs to another checkpoint, so its rows would be written twice.
    """
    owner = f"written by {app_id}"
    for table in tables:
        if not DeltaTable.is_deltatable(str(table.path)):
            table.path.mkdir(parents=True, exist_ok=True)
            configuration = {"delta.checkpointInterval": _CHECKPOINT_INTERVAL}
            DeltaTable.create(str(table.path), table.schema, description=owner, configuration=configuration)
            continue
        delta = DeltaTable(str(table.path))
        if delta.metadata().description != owner:
            raise ConfigError(
                f"table {table.path} was written from another checkpoint, and a new one would write its rows "
                "again; use that checkpoint, or an empty warehouse"
            )
        _add_columns(delta, table)


def _add_columns(delta: DeltaTable, table: Table) -> None:
    known = len(delta.schema().fields)
    added = [field.with_metadata({"comment": ADDED}) for field in list(table.schema)[known:]]
    if added:
        delta.alter.add_columns(Schema.from_arrow(pa.schema(added)).fields)


class TableLog:
    """The log of a table that files are committed to, kept open from batch to batch."""

    def __init__(self, path: Path, app_id: str) -> None:
        self._delta = DeltaTable(str(path))
        self._app_id = app_id

    def commit(self, files: Sequence[Mapping[str, Any]], batch_id: int) -> None:
        """Make files a version of the table, unless an earlier attempt at the batch has made one.

        Args:
            files: each with `path`, `size`, `modified` and `stats`.
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
    """Append a batch's rows to a table, unless an earlier attempt has."""
    writer = rows.write.format("delta").mode("append")
    writer.option("txnAppId", app_id).option("txnVersion", batch_id).save(str(path))
