"""The Delta tables that a job writes. They are created before Spark starts, and refused if they are not the
checkpoint's.

delta-rs creates a table in 30 ms. Spark took 5 s for four tables, a third of a job's start.
"""

from __future__ import annotations

import errno
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from deltalake import DeltaTable, Field
from deltalake.schema import Schema

from endmark.driver import checkpoint as checkpoints
from endmark.driver.planned_batches import newest
from endmark.engine import channels
from endmark.engine.delta_files import FileTable
from endmark.engine.delta_log import require_unconstrained
from endmark.engine.streams import arrow_schema, ddl
from endmark.errors import ConfigError
from endmark.pipeline.tables import OWNER, SINCE, deleted_role, is_latest_role, is_running_role, step_of
from endmark.storage import delta_table, options, reaching

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame

    from endmark.driver.checkpoint import KnownTable
    from endmark.pipeline import Pipeline
    from endmark.storage import Location

# Delta reads at most this many commits behind a checkpoint of the log. A checkpoint costs a second, and the
# default is one for every tenth commit.
_CHECKPOINT_INTERVAL = "100"


class Table(Protocol):
    """A Delta table by its path, its columns, and those that it is partitioned by."""

    @property
    def path(self) -> Location: ...

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def partition_by(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Target:
    """A Delta table and the channel whose rows it gets.

    Args:
        channel: the channel.
        path: the directory of the table.
        schema: the columns of the table.
        numbered: whether the last column is the number of the batch, which the channel does not have.
        partition_by: the columns that the table is partitioned by.
        key: the columns by which rows are upserted; none if they are appended.
    """

    channel: str
    path: Location
    schema: pa.Schema
    numbered: bool = False
    partition_by: tuple[str, ...] = ()
    key: tuple[str, ...] = ()

    @property
    def brought(self) -> pa.Schema:
        """The columns that the channel has."""
        return self.schema.remove(len(self.schema) - 1) if self.numbered else self.schema

    @property
    def deleted_channel(self) -> str | None:
        """The channel of the keys whose rows are removed; `None` if no deletion removes a row."""
        return deleted_role(step_of(self.channel)) if is_latest_role(self.channel) else None

    @property
    def deleted_schema(self) -> pa.Schema:
        """The columns of the keys whose rows are removed."""
        return pa.schema([self.schema.field(name) for name in self.key])

    @property
    def ddl(self) -> str:
        """The columns of `brought`, as Spark's DDL."""
        return ddl(self.brought)

    def files(self) -> FileTable:
        """Return the table in the form in which tasks write its files."""
        return FileTable(self.path, self.schema, self.numbered, self.partition_by)

    def deleted_files(self) -> dict[str, FileTable]:
        """Return the form in which tasks write files of deleted keys, by channel; none without such keys.

        The files lie in the directory of the table, but belong to no version of it.
        """
        channel = self.deleted_channel
        return {} if channel is None else {channel: FileTable(self.path, self.deleted_schema)}


def targets(pipeline: Pipeline, warehouse: Location) -> list[Target]:
    """Return the tables of a pipeline: those of its steps, and those of records that made no result."""
    tables = pipeline.outputs.tables_by_role
    paths = {role: warehouse / directory for role, directory in pipeline.outputs.directories.items()}
    found = [
        Target(
            role,
            paths[role],
            arrow_schema(pipeline.outputs.columns_of(role)),
            numbered=is_running_role(role),
            partition_by=table.partition_columns,
            key=pipeline.outputs.key_of(role),
        )
        for role, table in tables.items()
    ]
    return [
        *found,
        Target(channels.DEAD_LETTERS, paths["dead_letters"], channels.DEAD_LETTER_SCHEMA),
        Target(channels.VIOLATIONS, paths["violations"], channels.VIOLATION_SCHEMA),
        Target(channels.ANNOUNCED, paths["punctuations"], channels.PUNCTUATION_SCHEMA),
    ]


def prepare(
    tables: Mapping[str, Table],
    app_id: str,
    checkpoint: Location,
    batch: int = 0,
    added: Collection[str] = (),
) -> None:
    """Create missing tables and columns, unless `checked` or `complete` refuses one.

    Args, Raises:
        those of these two functions.
    """
    complete(tables, checked(tables, app_id, checkpoint, batch), app_id, checkpoint, batch, added)


def checked(
    tables: Mapping[str, Table], app_id: str, checkpoint: Location, batch: int
) -> dict[str, DeltaTable | None]:
    """Return the tables that exist, and refuse those that are not the checkpoint's. Nothing is changed.

    A checkpoint knows its tables by their Delta ids, so they may be moved and restored.

    Args:
        tables: tables by a name that never changes; the checkpoint may have other tables, too.
        app_id: the id of the checkpoint.
        checkpoint: the directory of the checkpoint, which is locked.
        batch: the number of the next batch.

    Raises:
        ConfigError: a table belongs to another checkpoint, so its rows would be written twice. Or the
            checkpoint has written to another table, so that table's rows would be missing in this one. Or a
            table was taken out of the pipeline file for a while. Or it has a batch that the checkpoint has
            not planned. Or it lacks a batch that an earlier job has found in it. Or it has a constraint,
            which no job checks. Or delta-rs cannot find it by its path.
    """
    for table in tables.values():
        _require_readable(table.path)
    known = checkpoints.known_tables(checkpoint)
    planned = newest(checkpoint / "spark" / "offsets")
    found = {name: delta_table(table.path) for name, table in tables.items()}
    for name, table in tables.items():
        _require_own(table.path, found[name], app_id, known.get(name), checkpoint)
        _require_whole(table.path, known.get(name), batch)
        _require_planned(table.path, found[name], app_id, planned, checkpoint)
        _require_newest(table.path, found[name], app_id, known.get(name), batch)
        if (delta := found[name]) is not None:
            require_unconstrained(delta)
    return found


def complete(
    tables: Mapping[str, Table],
    found: Mapping[str, DeltaTable | None],
    app_id: str,
    checkpoint: Location,
    batch: int = 0,
    added: Collection[str] = (),
) -> None:
    """Create missing tables and columns; refuse tables that have other columns. Then nothing is created.

    A crash may come after tables are created and before the checkpoint knows them. No batch has been written
    then, and a property of each table names the checkpoint.

    Args:
        tables: tables by a name that never changes.
        found: what `checked` has returned for them.
        app_id: the id of the checkpoint.
        checkpoint: the directory of the checkpoint, which is locked.
        batch: the number of the next batch. A table that is created gets rows from this batch on.
        added: columns that are younger than the checkpoint. A table that lacks one gets it as its last
            column, which is null in the rows that are there.

    Raises:
        ConfigError: a table has other columns, or is partitioned by other columns, than this program writes.
    """
    for name, table in tables.items():
        _require_columns(table, found[name], added)
    ids = {}
    for name, table in tables.items():
        delta = found[name]
        if delta is None:
            delta = _created(table, {OWNER: app_id} | ({SINCE: str(batch)} if batch else {}))
        elif lacking := _lacking(table, delta):
            delta.alter.add_columns(lacking)
        ids[name] = _known(table.path, delta, app_id)
    known = checkpoints.known_tables(checkpoint)
    if known | ids != known:
        checkpoints.know_tables(checkpoint, known | ids)


def remember(tables: Mapping[str, Table], app_id: str, checkpoint: Location) -> None:
    """Store the newest batch of each table at the end of a job, by which `checked` refuses an older copy.

    Args:
        tables: the tables that the job has written, by a name that never changes.
        app_id: the id of the checkpoint.
        checkpoint: the directory of the checkpoint, which is locked.
    """
    found = {name: delta_table(table.path) for name, table in tables.items()}
    now = {
        name: _known(tables[name].path, delta, app_id) for name, delta in found.items() if delta is not None
    }
    checkpoints.know_tables(checkpoint, checkpoints.known_tables(checkpoint) | now)


def _known(path: Location, delta: DeltaTable, app_id: str) -> KnownTable:
    return checkpoints.KnownTable(str(delta.metadata().id), str(path), delta.transaction_version(app_id))


def _created(table: Table, properties: Mapping[str, str]) -> DeltaTable:
    if isinstance(table.path, Path):
        table.path.mkdir(parents=True, exist_ok=True)
    configuration = {"delta.checkpointInterval": _CHECKPOINT_INTERVAL, **properties}
    try:
        with reaching(table.path):
            return DeltaTable.create(
                str(table.path),
                table.schema,
                partition_by=list(table.partition_by),
                configuration=configuration,
                raise_if_key_not_exists=False,  # a table may have properties that Delta does not know
                storage_options=options(table.path),
            )
    except OSError as error:  # delta-rs writes its errors in colours and over several lines
        cause = " ".join(re.sub(r"\x1b\[\d*m|↳", "", str(error)).split())
        if cause.endswith(f"(os error {errno.ENOSPC})"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(table.path)) from error
        raise ConfigError(
            f"table {table.path} cannot be made: {cause}; name a warehouse that this user can write"
        ) from error


def _require_readable(path: Location) -> None:
    """Refuse a path that delta-rs reads as another one, since it decodes escapes of URLs in paths, too."""
    if isinstance(path, Path) and (found := re.search("%[0-9A-Fa-f]{2}", str(path))) is not None:
        raise ConfigError(
            f"table {path}: delta-rs takes {found[0]} in a path for another letter, so it would not find "
            "this table; name a warehouse without it"
        )


def _require_own(
    path: Location, delta: DeltaTable | None, app_id: str, known: KnownTable | None, checkpoint: Location
) -> None:
    found = None if delta is None else str(delta.metadata().id)
    if known is not None and found != known.id:
        wrong = "is missing" if found is None else f"is another one (Delta table {found})"
        raise ConfigError(
            f"table {path} {wrong}, but checkpoint {checkpoint} goes on with Delta table {known.id}, which "
            f"was last at {known.path}; name the directory where that one is now, restore it, or begin a new "
            "checkpoint by `endmark migrate FILE`, which also finishes a migration that was broken off"
        )
    if delta is not None and known is None and delta.metadata().configuration.get(OWNER) != app_id:
        raise ConfigError(
            f"table {path} was written from another checkpoint, and a new one would write its rows "
            "again; use that checkpoint, or an empty warehouse"
        )


def _require_whole(path: Location, known: KnownTable | None, batch: int) -> None:
    if known is not None and known.stopped is not None and known.stopped < batch:
        raise ConfigError(
            f"table {path} was taken out of the pipeline file and lacks the rows since batch "
            f"{known.stopped}; give the table another name, or begin a new checkpoint by "
            "`endmark migrate FILE`"
        )


def _require_planned(
    path: Location, delta: DeltaTable | None, app_id: str, planned: int | None, checkpoint: Location
) -> None:
    """Refuse a table that has a batch without offsets in the checkpoint.

    The number of that batch would be given to other records, and the table would skip them.

    Args:
        path: the directory of the table.
        delta: the table; `None` if there is none yet.
        app_id: the id of the checkpoint.
        planned: the last batch that has offsets in the checkpoint; `None` without any.
        checkpoint: the directory of the checkpoint.
    """
    last = None if delta is None else delta.transaction_version(app_id)
    if last is not None and last > (-1 if planned is None else planned):
        knows = "no batch" if planned is None else f"no batch after {planned}"
        raise ConfigError(
            f"table {path} has batch {last}, but checkpoint {checkpoint} knows {knows}; it is an older copy, "
            "or files of it were lost. Restore its newest copy, or begin a new checkpoint by "
            "`endmark migrate FILE`"
        )


def _require_newest(
    path: Location, delta: DeltaTable | None, app_id: str, known: KnownTable | None, batch: int
) -> None:
    """Refuse a table that is older than the checkpoint. The rows between would be missing for ever.

    Args:
        path: the directory of the table.
        delta: the table; `None` if there is none yet.
        app_id: the id of the checkpoint.
        known: the table as the last job left it; `None` if the checkpoint does not know it.
        batch: the number of the next batch, which may be a repeated one.
    """
    if delta is None or known is None or known.newest is None or known.newest >= batch:
        return
    last = delta.transaction_version(app_id)
    if last is None or last < known.newest:
        has = "no batch" if last is None else f"no batch after {last}"
        raise ConfigError(
            f"table {path} has {has}, but an earlier job had written batch {known.newest} to it, so the "
            "table is an older copy. Restore its newest copy, restore tables and checkpoint of one backup, "
            "or begin a new checkpoint by `endmark migrate FILE`"
        )


def _lacking(table: Table, delta: DeltaTable) -> list[Field]:
    """Return the columns that a Delta table does not have yet."""
    there = {field.name for field in delta.schema().fields}
    return [field for field in Schema.from_arrow(table.schema).fields if field.name not in there]


def _require_columns(table: Table, delta: DeltaTable | None, added: Collection[str]) -> None:
    if delta is None:
        return
    found, written = [field.name for field in delta.schema().fields], table.schema.names
    if not {*found} <= {*written} <= {*found, *added}:
        raise ConfigError(
            f"table {table.path} has the columns {', '.join(found)}, but this version writes "
            f"{', '.join(written)}; run the version that made it, or start with a new checkpoint and an "
            "empty warehouse"
        )
    there = {field.name: _spelled(field) for field in delta.schema().fields}
    for field in Schema.from_arrow(table.schema).fields:
        if there.get(field.name, _spelled(field)) != _spelled(field):
            raise ConfigError(
                f"table {table.path} has {there[field.name]} as {field.name}, but this version writes "
                f"{_spelled(field)}; write that type again, or start with a new checkpoint and an empty "
                "warehouse"
            )
    partitioned = delta.metadata().partition_columns
    if partitioned != list(table.partition_by):
        raise ConfigError(
            f"table {table.path} is partitioned by {', '.join(partitioned) or 'no column'}, but the pipeline "
            f"file says {', '.join(table.partition_by) or 'no column'}; go back to that, or start with a new "
            "checkpoint and an empty warehouse"
        )


def _spelled(field: Field) -> str:
    """Spell the type of a column with all types within it.

    Delta takes fields of a struct in any order, and with or without nulls. So neither is in the text.
    """

    def spelled(kind: Any) -> str:
        match kind:
            case {"type": "struct", "fields": fields}:
                inner = sorted(f"{each['name']}:{spelled(each['type'])}" for each in fields)
                return f"struct<{','.join(inner)}>"
            case {"type": "array", "elementType": element}:
                return f"array<{spelled(element)}>"
            case {"type": "map", "keyType": key, "valueType": value}:
                return f"map<{spelled(key)},{spelled(value)}>"
        return str(kind)

    return spelled(json.loads(field.to_json())["type"])


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
