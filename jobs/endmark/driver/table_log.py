"""Commits the files of a batch to a Delta table, once: appends them, or upserts their rows.

delta-rs commits. It takes milliseconds, and Spark's Delta takes a second or more for a few rows.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from endmark.engine.delta_partitions import spelled
from endmark.engine.upsert import DataFile, upsert

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from endmark.engine.delta_files import FileTable


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
        self._delta = DeltaTable(str(table.path))

    def commit(self, files: Sequence[Mapping[str, Any]], batch_id: int) -> None:
        """Commit files as a version of the table, unless an earlier attempt at the batch has done so.

        Args:
            files: the entries of the files, as `write_files` returns them.
            batch_id: the number of the batch.
        """
        if self._has(batch_id):
            return
        if self._key:
            self._upsert(files, batch_id)
        else:
            self._write(files, (), batch_id)

    def _upsert(self, files: Sequence[Mapping[str, Any]], batch_id: int) -> None:
        while True:
            read = self._delta.version()
            added, removed = upsert(self._table, self._key, self._files(), files)
            try:
                # Without retries, delta-rs commits the version after the one that was read, or none.
                self._write(added, removed, batch_id, max_commit_retries=0)
            except CommitFailedError:
                if self._has(batch_id):
                    return
                if self._delta.version() == read:
                    raise
            else:
                return

    def _has(self, batch_id: int) -> bool:
        self._delta.update_incremental()
        last = self._delta.transaction_version(self._app_id)
        return last is not None and last >= batch_id

    def _files(self) -> Iterator[DataFile]:
        """Yield the files of the version that was read."""
        for file in pa.table(self._delta.get_add_actions()).to_pylist():
            values = {name: spelled(value) for name, value in file["partition"].items()}
            yield DataFile(file["path"], file["size_bytes"], values)

    def _write(
        self,
        added: Iterable[Mapping[str, Any]],
        removed: Iterable[DataFile],
        batch_id: int,
        max_commit_retries: int | None = None,
    ) -> None:
        now = time.time_ns() // 1_000_000
        actions: list[AddAction | RemoveAction] = [
            AddAction(each["path"], each["size"], each["partition"], each["modified"], True, each["stats"])
            for each in added
        ]
        actions += [RemoveAction(each.path, True, now, each.size, each.partition) for each in removed]
        done = CommitProperties(
            max_commit_retries=max_commit_retries,
            app_transactions=[Transaction(self._app_id, batch_id, now)],
        )
        self._delta.create_write_transaction(
            actions,
            "append",
            self._delta.schema(),
            partition_by=list(self._table.partition_by),
            commit_properties=done,
        )
