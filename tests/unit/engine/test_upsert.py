"""Which files an upsert rewrites, so that they stay few, and which it leaves alone."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from endmark.driver.checkpoint import claimed
from endmark.driver.table_log import TableLog
from endmark.engine.delta_files import FileTable, write_files
from endmark.engine.delta_log import DataFile
from endmark.engine.upsert import read_rows
from endmark.spark.tables import Target, prepare
from support.planned_batches import spark_checkpoint
from support.upserted_table import UpsertedTable, group


def test_open_files_stay_few(tmp_path: Path) -> None:
    """Though each batch brings two, and no batch touches an older one: each has more rows than all smaller
    ones together. A row is rewritten a few times at most."""
    table = UpsertedTable(tmp_path)
    for batch in range(64):
        table.upsert([group(10 * batch + place, batch) for place in range(10)], batch)

        sizes = sorted(table.files(final=False).values())
        assert all(size > sum(sizes[:place]) for place, size in enumerate(sizes))
    assert sum(sizes) == 640
    files = table.path.glob("*.parquet")
    written = Counter(item for file in files for item in pq.read_table(file)["item"].to_pylist())
    assert max(written.values()) <= 9


def test_files_without_a_changed_key_stay(tmp_path: Path) -> None:
    table = UpsertedTable(tmp_path)
    table.upsert([group(item, 0) for item in range(100)], 0, tasks=1)
    [large] = table.files(final=False)
    table.upsert([group(200, 1), group(201, 1)], 1, tasks=1)
    table.upsert([group(200, 2)], 2, tasks=1)

    found = table.files(final=False)
    assert found.pop(large) == 100
    assert list(found.values()) == [2]


def test_files_of_other_keys_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large files are sorted by key, so the log says of each which keys it may have."""
    monkeypatch.setattr("endmark.engine.upsert._FULL_ROWS", 10)
    table = UpsertedTable(tmp_path)
    table.upsert([group(item, 0) for item in random.Random(7).sample(range(100), 100)], 0, tasks=1)
    table.upsert([group(55, 1)], 1, tasks=1)
    before = table.files(final=False)
    assert sorted(before.values()) == [10] * 10

    def read(of: FileTable, file: DataFile, columns: Sequence[str]) -> pa.Table:
        opened.add(file.path)
        return read_rows(of, file, columns)

    opened: set[str] = set()
    monkeypatch.setattr("endmark.engine.upsert.read_rows", read)
    table.upsert([group(31, 2), group(38, 2)], 2, tasks=1)

    assert len(opened & before.keys()) == 1
    assert len(before.keys() & table.files(final=False).keys()) == 9


def test_final_groups_are_not_read(tmp_path: Path) -> None:
    """So a batch costs as much as there are open groups."""
    table = UpsertedTable(tmp_path)
    table.upsert([group(1, 0, final=True), group(2, 0)], 0)
    for file in table.files(final=True):
        (table.path / file).unlink()

    table.upsert([group(2, 1), group(3, 1, final=True)], 1)

    assert sum(table.files(final=False).values()) == 1
    assert len(table.files(final=True)) == 2


def test_files_of_fewer_columns_are_rewritten(tmp_path: Path) -> None:
    """Rows of an earlier pipeline file have null in a new column, whatever the order of columns is now."""
    checkpoint, path = tmp_path / "checkpoint", tmp_path / "newest"
    before = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    now = pa.schema([("note", pa.string()), *before])

    def upsert(schema: pa.Schema, batch: int, *rows: dict[str, Any]) -> None:
        target = Target("newest", path, schema, key=("id",))
        with claimed(checkpoint):
            prepare({"newest": target}, "app", checkpoint, batch, ["note"])
            spark_checkpoint(checkpoint / "spark", [{}] * (batch + 1), committed=batch)
        files = write_files(target.files(), pa.Table.from_pylist(list(rows), schema))
        TableLog(target.files(), ("id",), "app").commit(files, batch)

    upsert(before, 0, {"id": 1}, {"id": 2}, {"id": 3})
    upsert(now, 1, {"id": 2, "note": "new"})

    found = DeltaTable(path).to_pyarrow_table().select(["id", "note"]).to_pylist()
    assert sorted(map(tuple, map(dict.values, found))) == [(1, None), (2, "new"), (3, None)]
