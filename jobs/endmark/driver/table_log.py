"""Commits the files of a batch to a Delta table, once: appends them, or upserts their rows.

delta-rs commits, since Spark's Delta takes a second or more for a few rows. Most commits to a table on a file
system do without it, by `endmark.engine.delta_entry`. delta-rs makes the first commit of a run, each commit
that a checkpoint of the log follows, and the next one after somebody else has committed. From one of these
commits to the next, the files that an upsert may rewrite are remembered.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError

from endmark.engine.delta_entry import is_plain, write_entry
from endmark.engine.delta_log import commit_files, data_file, data_files, metrics, replace_files
from endmark.engine.upsert import upsert
from endmark.storage import options, reaching

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from endmark.engine.delta_files import FileTable
    from endmark.engine.delta_log import DataFile


_CHECKPOINT_INTERVAL = 10  # the default of Delta, in versions


class TableLog:
    """The log of a table that files are committed to. It stays open from batch to batch.

    Args:
        table: the table.
        key: the columns by which rows are upserted; none if they are appended.
        app_id: the id of the checkpoint.
    """

    def __init__(self, table: FileTable, key: Sequence[str], app_id: str) -> None:
        self._table = table
        self._key = key
        self._app_id = app_id
        # The version that may be committed next without reading the log; `None` if it must be read first. The
        # batch of that version must be later than the last one that the table has.
        self._next: int | None = None
        self._last = -1
        # By path, the files of the last version that the next upsert may rewrite.
        self._open: dict[str, DataFile] = {}
        with reaching(table.path):
            self._delta = DeltaTable(str(table.path), storage_options=options(table.path))

    def commit(
        self,
        files: Sequence[Mapping[str, Any]],
        batch_id: int,
        deleted: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Commit files as a version of the table, unless an earlier attempt at the batch has done so.

        Args:
            files: the entries of the files, as `write_files` returns them.
            batch_id: the number of the batch.
            deleted: the entries of files with the keys whose rows are removed.

        Raises:
            CommitFailedError: another commit conflicts with this one.
            MissingPartError: the object store of the table is away, or refuses the commit.
        """
        with reaching(self._table.path):
            if not self._commit_unread(files, batch_id, deleted):
                self._next = None
                if self._key:
                    self._upsert(files, batch_id, deleted)
                elif not self._has(batch_id):
                    self._append(files, batch_id)
                self._next = self._after_reading()

    def _commit_unread(
        self, files: Sequence[Mapping[str, Any]], batch_id: int, deleted: Sequence[Mapping[str, Any]]
    ) -> bool:
        """Commit files without reading the log, if that is possible; return whether it was."""
        path, number = self._table.path, self._next
        if number is None or batch_id <= self._last or not isinstance(path, Path):
            return False
        removed: Sequence[DataFile] = ()
        if self._key:
            files, removed = upsert(self._table, self._key, self._open.values(), files, deleted)
        done, now = self._done(batch_id), time.time_ns() // 1_000_000
        figures, partition_by = metrics(files, removed), self._table.partition_by
        try:
            write_entry(path, number, files, removed, done, figures, partition_by, now)
        except (FileExistsError, FileNotFoundError):  # somebody else has changed the table
            return False
        self._last, self._next = batch_id, self._unless_checkpoint(number + 1)
        for file in removed:
            del self._open[file.path]
        self._remember(data_file(entry, self._table.schema) for entry in files)
        return True

    def _remember(self, files: Iterable[DataFile]) -> None:
        """Remember the files among some that an upsert may rewrite."""
        if self._key:
            self._open |= {file.path: file for file in files if not file.is_final}

    def _after_reading(self) -> int | None:
        """Read the log; return the version that may be committed next without reading it again."""
        if not isinstance(self._table.path, Path):
            return None
        self._last, self._open = self._last_batch(), {}
        self._remember(data_files(self._delta))
        return self._unless_checkpoint(self._delta.version() + 1) if is_plain(self._delta) else None

    def _unless_checkpoint(self, number: int) -> int | None:
        """Return the number of a version; `None` if a checkpoint follows it, which delta-rs writes."""
        configured = self._delta.metadata().configuration.get(
            "delta.checkpointInterval", _CHECKPOINT_INTERVAL
        )
        return number if (number + 1) % int(configured) else None

    def _append(self, files: Sequence[Mapping[str, Any]], batch_id: int) -> None:
        try:
            commit_files(self._delta, files, transactions=self._done(batch_id))
        except CommitFailedError:
            # The answer of an object store may be lost. Then the commit is tried again, and meets itself.
            if not self._has(batch_id):
                raise

    def _upsert(
        self, files: Sequence[Mapping[str, Any]], batch_id: int, deleted: Sequence[Mapping[str, Any]]
    ) -> None:
        def plan() -> tuple[Sequence[Mapping[str, Any]], Sequence[DataFile]] | None:
            if self._has(batch_id):
                return None
            return upsert(self._table, self._key, data_files(self._delta), files, deleted)

        replace_files(self._delta, plan, data_change=True, transactions=self._done(batch_id))

    def _done(self, batch_id: int) -> list[Transaction]:
        return [Transaction(self._app_id, batch_id, time.time_ns() // 1_000_000)]

    def _has(self, batch_id: int) -> bool:
        return self._last_batch() >= batch_id

    def _last_batch(self) -> int:
        """Read the log; return the last batch that the table has, and -1 if it has none."""
        self._delta.update_incremental()
        last = self._delta.transaction_version(self._app_id)
        return -1 if last is None else last
