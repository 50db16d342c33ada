"""Commits the files of a batch to a Delta table, once: appends them, or upserts their rows.

delta-rs commits. It takes milliseconds, and Spark's Delta takes a second or more for a few rows.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError

from endmark.engine.delta_log import commit_files, data_files, replace_files
from endmark.engine.upsert import upsert
from endmark.storage import options, reaching

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endmark.engine.delta_files import FileTable
    from endmark.engine.delta_log import DataFile


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
            if self._key:
                self._upsert(files, batch_id, deleted)
            elif not self._has(batch_id):
                self._append(files, batch_id)

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
        self._delta.update_incremental()
        last = self._delta.transaction_version(self._app_id)
        return last is not None and last >= batch_id
