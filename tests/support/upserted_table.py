"""A table of running groups that is upserted without a job, and what it holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from endmark.driver.checkpoint import claimed
from endmark.driver.table_log import TableLog
from endmark.engine.delta_files import write_files
from endmark.spark.tables import Target, prepare

SCHEMA = pa.schema(
    [
        ("item", pa.int64()),
        ("shop", pa.string()),
        ("bids", pa.int64()),
        ("country", pa.string()),
        ("final", pa.bool_()),
        ("batch", pa.int64()),
    ]
)
KEY = ("item", "shop")
Row = dict[str, Any]


def group(item: int, batch: int, *, final: bool = False) -> Row:
    return dict(zip(SCHEMA.names, (item, "a", batch, None, final, batch), strict=True))


class UpsertedTable:
    """A table of running groups, partitioned by some columns and by `final`."""

    def __init__(self, directory: Path, *partition_by: str) -> None:
        self.path = directory / "running"
        partitions = (*partition_by, "final")
        self.target = Target("running", self.path, SCHEMA, numbered=True, partition_by=partitions, key=KEY)
        with claimed(directory / "checkpoint"):
            prepare({"running": self.target}, "app", directory / "checkpoint")

    def write(self, rows: list[Row], tasks: int = 2) -> list[dict[str, Any]]:
        """The entries of the files that tasks write; a task without rows writes none."""
        shares = [
            pa.Table.from_pylist(share, SCHEMA) for task in range(tasks) if (share := rows[task::tasks])
        ]
        return [file for share in shares for file in write_files(self.target.files(), share)]

    def upsert(self, rows: list[Row], batch: int, tasks: int = 2) -> None:
        """A batch, by a job that has just been started."""
        TableLog(self.target.files(), KEY, "app").commit(self.write(rows, tasks), batch)

    def rows(self) -> list[Row]:
        rows: list[Row] = DeltaTable(str(self.path)).to_pyarrow_table().to_pylist()
        return sorted(rows, key=lambda row: (row["item"], row["shop"]))

    def files(self, *, final: bool) -> dict[str, int]:
        """The files of final or of open groups, each with its number of rows."""
        files = pa.table(DeltaTable(str(self.path)).get_add_actions()).to_pylist()
        return {file["path"]: file["num_records"] for file in files if file["partition"]["final"] == final}
