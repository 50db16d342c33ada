"""Upkeep of the Delta tables while a job and readers use them.

Upkeep does three things, in this order, for every table of a pipeline:

1. It merges small files, and sorts their rows if the pipeline file says `cluster_by`. Each batch adds some,
   and a reader opens all of them. The job only appends, which never conflicts with a merge. If running
   groups are upserted, it also replaces files of open groups, which are left to it, as are all files of a
   table of the newest rows of a stream.
2. It removes files that no version of the last `keep` has. These are files that were merged before, and files
   that a killed attempt left behind. The files of an unfinished batch are in no version yet, and a reader may
   read an older version. So `keep` must be longer than either takes.
3. It removes entries of the table's log that a checkpoint older than `keep` has replaced. That checkpoint
   also has the numbers of committed batches, which keep a repeated batch from being written twice.

delta-rs does this in seconds, one task at a time. Spark would take a minute of the job's cores. But delta-rs
does not notice that somebody else rewrites the same files at the same time, and all their rows would be there
twice. So a warehouse has one maintenance at a time, and each merge checks what others have committed.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from endmark.embedded.claim import claimed
from endmark.engine.delta_files import FileTable, write_files
from endmark.engine.delta_log import data_files, replace_files
from endmark.engine.upsert import read_rows
from endmark.errors import ConfigError, EndmarkError
from endmark.pipeline.tables import FINAL, RESERVED, Table
from endmark.storage import delta_table, entries, reaching, read_text, remove
from endmark.store_claim import store_claimed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import timedelta

    from deltalake import DeltaTable

    from endmark.engine.delta_log import DataFile
    from endmark.pipeline import Pipeline
    from endmark.storage import Location

# A scan reads files of this size well, and rewriting a table's last file until it is full costs little.
FULL_FILE_BYTES = 128 << 20
_VERSION = re.compile(r"\.?(\d{20})\.")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")


@dataclass(frozen=True)
class Maintained:
    """The upkeep of a table that was done, or that a dry run would do.

    Args:
        table: the table's name in the pipeline file.
        small_files: the number of files in the newest version that are not full.
        put_together: the number of files that were merged into fewer; 0 in a dry run.
        removed_files: the number of files that no version of the kept time has.
        removed_log_entries: the number of log entries that a checkpoint has replaced.
    """

    table: str
    small_files: int
    put_together: int
    removed_files: int
    removed_log_entries: int


def maintain(pipeline: Pipeline, warehouse: Location, keep: timedelta, *, dry_run: bool) -> list[Maintained]:
    """Maintain the tables of a pipeline that exist.

    Args:
        pipeline: the pipeline.
        warehouse: the directory of the Delta tables.
        keep: the time for which older versions stay readable.
        dry_run: whether to change nothing and only count.

    Raises:
        ConfigError: the warehouse has no table of the pipeline.
        MissingPartError: another maintenance works on this warehouse, or its object store is away.
        EndmarkError: somebody else has rewritten a table meanwhile.
    """
    named = {name: (warehouse / name).resolve() for name in [*pipeline.tables, *RESERVED]}
    tables = {name: table for name, path in named.items() if (table := delta_table(path)) is not None}
    if not tables:
        raise ConfigError(
            f"warehouse {warehouse} has no table of {pipeline.name}; name the one that its job writes"
        )
    with _claimed(warehouse), reaching(warehouse):
        return [
            _maintained(name, pipeline.tables.get(name, Table()), table, named[name], keep, dry_run)
            for name, table in tables.items()
        ]


def _claimed(warehouse: Location) -> AbstractContextManager[object]:
    place = warehouse / ".maintenance"
    return claimed(place, "maintenance") if isinstance(place, Path) else store_claimed(place)


def _maintained(
    name: str, declared: Table, table: DeltaTable, path: Location, keep: timedelta, dry_run: bool
) -> Maintained:
    table.update_incremental()  # another maintenance may have ended just before the claim
    sizes = table.get_add_actions(flatten=True).column("size_bytes").to_pylist()
    return Maintained(
        table=name,
        small_files=sum(size < FULL_FILE_BYTES for size in sizes),
        put_together=0 if dry_run else _merged(declared, table, path),
        removed_files=_remove_unused(table, path, keep, dry_run),
        removed_log_entries=_remove_replaced(path / "_delta_log", keep, dry_run),
    )


def _merged(declared: Table, table: DeltaTable, path: Location) -> int:
    if declared.key:  # the job itself keeps its files few, and replaces any of them
        return 0
    if declared.mode != "append" and FINAL in table.metadata().partition_columns:
        return merge_final(table, path)
    return put_together(table, path, declared.cluster_by)


def merge_final(table: DeltaTable, path: Location) -> int:
    """Merge small files of final groups of an upserted table; return how many files were merged.

    The job never replaces these files. But delta-rs counts all files of the table as read by a merge, and
    gives it up if the job replaces a file of open groups meanwhile. So the files are written here, and only
    their commit is tried again.

    Raises:
        EndmarkError: somebody else has removed the same files meanwhile; nothing has changed then.
    """
    schema = pa.schema(table.schema().to_arrow())
    written = FileTable(path, schema, partition_by=tuple(table.metadata().partition_columns))
    merged = 0
    for files in _bins(file for file in data_files(table) if file.is_final):
        rows = pa.concat_tables([read_rows(written, file, schema.names) for file in files])
        entries = write_files(written, rows)

        def plan(
            entries: list[dict[str, Any]] = entries, files: list[DataFile] = files
        ) -> tuple[list[dict[str, Any]], list[DataFile]]:
            table.update_incremental()
            if not {file.path for file in files} <= {file.path for file in data_files(table)}:
                raise EndmarkError(
                    f"table {path} was rewritten by somebody else while its small files were put together; "
                    "nothing has changed, so let only one program rewrite it"
                )
            return entries, files

        replace_files(table, plan, data_change=False)
        merged += len(files)
    return merged


def _bins(files: Iterable[DataFile]) -> Iterator[list[DataFile]]:
    """Yield small files of one partition that make about a full one together, several at a time."""
    bins: dict[str, list[DataFile]] = {}
    for file in files:
        if file.size < FULL_FILE_BYTES:
            mine = bins.setdefault(json.dumps(file.partition, sort_keys=True), [])
            mine.append(file)
            if sum(each.size for each in mine) >= FULL_FILE_BYTES:
                yield mine.copy()
                mine.clear()
    yield from (mine for mine in bins.values() if len(mine) > 1)


def put_together(table: DeltaTable, path: Location, cluster_by: Sequence[str] = ()) -> int:
    """Merge small files of a table that is only appended to; return how many files were merged.

    Args:
        table: the table.
        path: its directory.
        cluster_by: columns along whose z-order all rows are sorted when there are files to merge; none leaves
            full files as they are.

    Raises:
        EndmarkError: somebody else has rewritten the same files since the table was loaded.
    """
    read = table.version()
    if cluster_by and _is_fragmented(table):
        done = table.optimize.z_order(cluster_by, target_size=FULL_FILE_BYTES, max_concurrent_tasks=1)
    else:
        done = table.optimize.compact(target_size=FULL_FILE_BYTES, max_concurrent_tasks=1)
    merged = int(done["numFilesRemoved"])
    commits = range(read + 1, table.version() + 1) if merged else ()
    removed = Counter(file for version in commits for file in _removed(path, version))
    if any(times > 1 for times in removed.values()):
        raise EndmarkError(
            f"table {path} was rewritten by somebody else while its small files were put together, so rows "
            f"may be there twice: stop the job; if version {table.version()} is its last, restore the one "
            "before, else start with a new checkpoint and an empty warehouse"
        )
    return merged


def _is_fragmented(table: DeltaTable) -> bool:
    """Return whether a partition has several files that are not full."""
    files = pa.table(table.get_add_actions()).to_pylist()
    small = Counter(str(file.get("partition")) for file in files if file["size_bytes"] < FULL_FILE_BYTES)
    return any(count > 1 for count in small.values())


def _removed(path: Location, version: int) -> list[str]:
    """Return the files that a version of a table does not have any more."""
    commit = read_text(path / "_delta_log", f"{version:020}.json")
    return [action["remove"]["path"] for action in map(json.loads, commit.splitlines()) if "remove" in action]


def _remove_unused(table: DeltaTable, path: Location, keep: timedelta, dry_run: bool) -> int:
    hours = int(keep.total_seconds() // 3600)

    # With `full`, all files of the directory are compared. The log forgets replaced files after a week, and
    # it never had the files of killed attempts.
    def vacuum(dry_run: bool) -> list[str]:
        return table.vacuum(hours, dry_run=dry_run, enforce_retention_duration=False, full=True)

    unused = vacuum(dry_run=True)
    if unused and not dry_run:
        vacuum(dry_run=False)
        if isinstance(path, Path):  # remove also the checksums that Hadoop has put beside the files
            remove(path, [f".{name}.crc" for name in unused])
    return len(unused)


def _remove_replaced(log: Location, keep: timedelta, dry_run: bool) -> int:
    expired = expired_entries(log, time.time() - keep.total_seconds())
    if not dry_run:
        remove(log, expired)  # some may be gone, since Spark removes entries, too
    return len(expired)


def expired_entries(log: Location, before: float) -> list[str]:
    """Return the names of the entries of a table's log that a checkpoint has replaced, the oldest first.

    Only checkpoints made until `before` count, in Unix seconds. See "Metadata Cleanup" in Delta's protocol.
    """
    names = entries(log)
    checkpoints = (
        int(found[1])
        for name, made in names.items()
        if made <= before and (found := _CHECKPOINT.fullmatch(name))
    )
    replaced = max(checkpoints, default=0)
    return sorted(
        (name for name in names if (found := _VERSION.match(name)) and int(found[1]) < replaced),
        key=lambda name: name.removeprefix("."),
    )
