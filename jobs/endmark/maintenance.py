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

Files are merged by the code that the job writes them with. delta-rs' own merge wrote partition values and
bounds that mean other rows to Spark: timestamps without their zone, a null like a text, bounds without NaN.
delta-rs sorts the rows of `cluster_by`, since all rows of a partition are sorted at once, which may be more
than fit into memory. It does not notice that somebody else rewrites the same files at the same time, and all
their rows would be there twice. So a warehouse has one maintenance at a time, and after a sort the commits of
others are read.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake.exceptions import DeltaError

from endmark.embedded.claim import claimed
from endmark.engine.delta_files import FileTable, write_files
from endmark.engine.delta_log import data_files, replace_files
from endmark.engine.upsert import read_rows
from endmark.errors import ConfigError, EndmarkError, MissingPartError
from endmark.pipeline.tables import FINAL, RESERVED, Table
from endmark.storage import delta_table, entries, reaching, read_text, remove
from endmark.store_claim import store_claimed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from deltalake import DeltaTable

    from endmark.engine.delta_log import DataFile
    from endmark.pipeline import Pipeline
    from endmark.storage import Location

# A scan reads files of this size well, and rewriting a table's last file until it is full costs little.
FULL_FILE_BYTES = 128 << 20
# How long Delta's log keeps the names of removed files, and its own entries, by default.
_RETENTIONS = {
    "delta.deletedFileRetentionDuration": "interval 7 days",
    "delta.logRetentionDuration": "interval 30 days",
}
_INTERVAL = re.compile(r"interval (\d+) (week|day|hour|minute|second)s?")
_STAGED = re.compile(r"\.parquet#\d+$")
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
        error: why the upkeep of this table has ended early; `None` if it has not.
    """

    table: str
    small_files: int = 0
    put_together: int = 0
    removed_files: int = 0
    removed_log_entries: int = 0
    error: str | None = None


def maintain(pipeline: Pipeline, warehouse: Location, keep: timedelta, *, dry_run: bool) -> list[Maintained]:
    """Maintain the tables of a pipeline that exist. One that cannot be maintained does not stop the others.

    Args:
        pipeline: the pipeline.
        warehouse: the directory of the Delta tables.
        keep: the time for which older versions stay readable.
        dry_run: whether to change nothing and only count.

    Raises:
        ConfigError: the warehouse has no table of the pipeline, or a table's log forgets versions earlier.
        MissingPartError: another maintenance works on this warehouse.
        UnreachableError: its object store is away.
    """
    named = {name: (warehouse / name).resolve() for name in [*pipeline.tables, *RESERVED]}
    tables = {name: table for name, path in named.items() if (table := delta_table(path)) is not None}
    if not tables:
        raise ConfigError(
            f"warehouse {warehouse} has no table of {pipeline.name}; name the one that its job writes"
        )
    for name, table in tables.items():
        _require_kept(name, table, keep)

    def maintained(name: str) -> Maintained:
        try:
            declared = pipeline.tables.get(name, Table())
            with reaching(warehouse):
                return _maintained(name, declared, tables[name], named[name], keep, dry_run)
        except MissingPartError:
            raise
        except (EndmarkError, DeltaError, pa.ArrowException, OSError) as error:
            return Maintained(name, error=" ".join(str(error).split()))

    with _claimed(warehouse), reaching(warehouse):
        return [maintained(name) for name in tables]


def _require_kept(name: str, table: DeltaTable, keep: timedelta) -> None:
    """Refuse to keep versions longer than the log of a table knows their files."""
    configured = table.metadata().configuration
    for setting, usual in _RETENTIONS.items():
        text = configured.get(setting, usual)
        found = _INTERVAL.fullmatch(text.strip().lower())
        if found is not None and timedelta(**{f"{found[2]}s": int(found[1])}) < keep:
            raise ConfigError(
                f"table {name}: versions of the last {keep.days} days cannot be kept, since {setting} of the "
                f"table is {text!r}; keep fewer days, or set it to 'interval {keep.days} days'"
            )


def _claimed(warehouse: Location) -> AbstractContextManager[object]:
    claims = warehouse / ".maintenance"
    return claimed(claims, "maintenance") if isinstance(claims, Path) else store_claimed(claims)


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
    return cluster(table, path, declared.cluster_by) if declared.cluster_by else merge(table, path)


def merge_final(table: DeltaTable, path: Location) -> int:
    """Merge small files of final groups of an upserted table, which the job never replaces.

    Args, Returns, Raises:
        those of `merge`.
    """
    return merge(table, path, lambda file: file.is_final)


def merge(table: DeltaTable, path: Location, may_merge: Callable[[DataFile], bool] = lambda _: True) -> int:
    """Merge small files of a table; return how many files were merged.

    Only the commit is tried again if somebody else has committed meanwhile.

    Args:
        table: the table.
        path: its directory.
        may_merge: whether a file may be merged. The job must not replace it.

    Raises:
        EndmarkError: somebody else has removed the same files meanwhile; nothing has changed then.
    """
    schema = pa.schema(table.schema().to_arrow())
    written = FileTable(path, schema, partition_by=tuple(table.metadata().partition_columns))
    merged = 0
    for files in _bins(filter(may_merge, data_files(table))):
        rows = pa.concat_tables([read_rows(written, file, schema.names) for file in files])
        entries = write_files(written, rows)

        def plan(
            entries: list[dict[str, Any]] = entries, files: list[DataFile] = files
        ) -> tuple[list[dict[str, Any]], list[DataFile]]:
            table.update_incremental()
            if not {file.path for file in files} <= {file.path for file in data_files(table)}:
                raise EndmarkError(
                    f"table {path} was rewritten by somebody else while its small files were merged; nothing "
                    "has changed, so let only one program rewrite it"
                )
            return entries, files

        replace_files(table, plan, data_change=False)
        merged += len(files)
    return merged


def _bins(files: Iterable[DataFile]) -> Iterator[list[DataFile]]:
    """Yield small files of one partition that make about a full one together, several at a time."""
    bins: dict[str, list[DataFile]] = {}
    sizes: Counter[str] = Counter()
    for file in files:
        if file.size < FULL_FILE_BYTES:
            partition = json.dumps(file.partition, sort_keys=True)
            bins.setdefault(partition, []).append(file)
            sizes[partition] += file.size
            if sizes[partition] >= FULL_FILE_BYTES:
                yield bins.pop(partition)
                del sizes[partition]
    yield from (mine for mine in bins.values() if len(mine) > 1)


def cluster(table: DeltaTable, path: Location, by: Sequence[str]) -> int:
    """Sort all rows of a table that is only appended to, if it has small files to merge.

    Args:
        table: the table.
        path: its directory.
        by: the columns along whose z-order its rows are sorted.

    Returns:
        The number of files that were merged.

    Raises:
        EndmarkError: somebody else has rewritten the same files since the table was loaded.
    """
    if not _is_fragmented(table):
        return 0
    read = table.version()
    done = table.optimize.z_order(by, target_size=FULL_FILE_BYTES, max_concurrent_tasks=1)
    merged = int(done["numFilesRemoved"])
    commits = range(read + 1, table.version() + 1) if merged else ()
    removed = Counter(file for version in commits for file in _removed(path, version))
    if any(times > 1 for times in removed.values()):
        raise EndmarkError(
            f"table {path} was rewritten by somebody else while its rows were sorted, so rows may be there "
            f"twice: stop the job; if version {table.version()} is its last, restore the one before, else "
            "start with a new checkpoint and an empty warehouse"
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
    torn = _torn(path, time.time() - keep.total_seconds()) if isinstance(path, Path) else []
    if not dry_run:
        remove(path, torn)
    return len(unused) + len(torn)


def _torn(path: Path, before: float) -> list[str]:
    """Return the files that delta-rs was writing when it was killed. Its vacuum leaves them out."""
    return [name for name, at in entries(path, below=True).items() if at < before and _STAGED.search(name)]


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
