"""Upkeep of the Delta tables acts or refuses; tests/faults runs it beside a job."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Field, Transaction, write_deltalake
from deltalake.schema import PrimitiveType

from endmark.embedded.claim import claimed
from endmark.engine.delta_files import FileTable, write_files
from endmark.engine.delta_log import commit_files
from endmark.errors import ConfigError, EndmarkError, MissingPartError
from endmark.maintenance import expired_entries, maintain, merge_final, put_together
from endmark.pipeline.file import load
from endmark.pipeline.tables import Table
from endmark.pipelines import AUCTION
from support.upserted_table import UpsertedTable, group

SPEC = load(AUCTION, {"ENDMARK_RELATION_URL": "sqlite://"})
WEEK = timedelta(days=7)


def test_what_is_no_warehouse_or_in_other_hands_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no table of auction"):
        maintain(SPEC, tmp_path / "warehouse", WEEK, dry_run=True)
    assert not (tmp_path / "warehouse").exists()
    write_deltalake(str(tmp_path / "warehouse" / "results"), pa.table({"a": [1]}))
    with (
        claimed(tmp_path / "warehouse" / ".maintenance", "maintenance"),
        pytest.raises(MissingPartError, match="maintenance: another one runs"),
    ):
        maintain(SPEC, tmp_path / "warehouse", WEEK, dry_run=True)


def test_log_entries_below_an_old_checkpoint_are_expired(tmp_path: Path) -> None:
    """A checkpoint that is too new replaces nothing yet; without the entries the table is the same, and knows
    which batches it has."""
    log = tmp_path / "_delta_log"
    for version in range(9):
        known = CommitProperties(app_transactions=[Transaction("job", version)])
        write_deltalake(str(tmp_path), pa.table({"a": [version]}), mode="append", commit_properties=known)
        if version in {3, 6}:
            DeltaTable(str(tmp_path)).create_checkpoint()
    (log / f".{2:020}.json.crc").touch()
    (log / f"{1:020}.crc").touch()
    assert expired_entries(log, 0) == []
    for entry in log.iterdir():
        version = int(entry.name.lstrip(".").split(".")[0]) if entry.name[0] != "_" else 9
        os.utime(entry, (version, version))

    expired = expired_entries(log, before=5)

    assert [name.removeprefix(".").lstrip("0") for name in expired] == [
        ".json",
        "1.crc",
        "1.json",
        "2.json",
        "2.json.crc",
    ]
    for name in expired:
        (log / name).unlink()
    table = DeltaTable(str(tmp_path))
    assert sorted(table.to_pyarrow_table()["a"].to_pylist()) == list(range(9))
    assert table.transaction_version("job") == 8


def test_only_files_that_no_version_of_late_has_are_removed(tmp_path: Path) -> None:
    """Kept is what an older version has that a reader may be at, however old the file, and what a batch may
    be about to commit. A dry run removes nothing, and a second run finds nothing to do."""
    table = tmp_path / "warehouse" / "results"
    write_deltalake(str(table), pa.table({"a": [1]}))
    [replaced] = DeltaTable(str(table)).file_uris()
    write_deltalake(str(table), pa.table({"a": [2]}), mode="overwrite")
    [current] = DeltaTable(str(table)).file_uris()
    left_behind, its_checksum = table / "part-1.parquet", table / ".part-1.parquet.crc"
    being_written = table / "part-2.parquet"
    for file in (left_behind, its_checksum, being_written):
        file.touch()
    for file in (Path(replaced), Path(current), left_behind):
        os.utime(file, (0, 0))

    removed = [
        maintain(SPEC, tmp_path / "warehouse", timedelta(days=1), dry_run=dry_run)[0].removed_files
        for dry_run in (True, False, False)
    ]

    assert removed == [1, 1, 0]
    assert {path.name for path in table.iterdir() if path.is_file()} == {
        Path(replaced).name,
        Path(current).name,
        being_written.name,
    }


def test_rows_stay_as_they_are_beside_appends_and_are_not_silently_doubled(tmp_path: Path) -> None:
    """An append in between is no conflict; another's rewriting of the same files is, which delta-rs does not
    see: once it does, this test fails, and the look at others' commits can go."""

    def append(value: int) -> None:
        write_deltalake(str(tmp_path), pa.table({"a": [value]}), mode="append")

    for value in range(5):
        append(value)
    table, other = DeltaTable(str(tmp_path)), DeltaTable(str(tmp_path))
    append(5)
    assert put_together(table, tmp_path) == 5
    assert sorted(DeltaTable(str(tmp_path)).to_pyarrow_table()["a"].to_pylist()) == [*range(6)]

    with pytest.raises(EndmarkError, match="rewritten by somebody else"):
        put_together(other, tmp_path)
    assert DeltaTable(str(tmp_path)).to_pyarrow_table().num_rows == 11


def test_upserts_and_upkeep_do_not_meet(tmp_path: Path) -> None:
    """Files of final groups are merged, and those of open groups are left to the job, which may replace them
    between what the merge reads and its commit."""
    table = UpsertedTable(tmp_path)
    for batch in range(3):
        table.upsert([group(batch, batch, final=True), group(10 + batch, batch)], batch)
    loaded = DeltaTable(str(table.path))
    table.upsert([group(10, 3), group(11, 3, final=True)], 3)

    assert merge_final(loaded, table.path) == 3

    assert [(row["item"], row["batch"], row["final"]) for row in table.rows()] == [
        (0, 0, True),
        (1, 1, True),
        (2, 2, True),
        (10, 3, False),
        (11, 3, True),
        (12, 2, False),
    ]
    table.upsert([group(12, 4, final=True)], 4)
    assert len(table.rows()) == 6


def test_upserted_groups_are_found_by_their_table(tmp_path: Path) -> None:
    """They are upserted as long as the table is, whatever the file's mode is now. Its name is the file's."""
    so_far = Table.model_validate({"from": "by_item", "mode": "changes"})
    spec = SPEC.model_copy(update={"tables": SPEC.tables | {"so_far": so_far}})
    table = UpsertedTable(tmp_path / "warehouse")
    for batch in range(3):
        table.upsert([group(batch, batch, final=True), group(10 + batch, batch)], batch)
    still_open = table.files(final=False)
    table.path = table.path.rename(tmp_path / "warehouse" / "so_far")

    [done] = maintain(spec, tmp_path / "warehouse", WEEK, dry_run=False)

    assert (done.table, done.put_together) == ("so_far", 3)
    assert table.files(final=False) == still_open
    assert list(table.files(final=True).values()) == [3]


def test_rows_are_clustered(tmp_path: Path) -> None:
    """So that a range of a column is in few files; without small files there is nothing to do."""
    rows = pa.table({"a": [*range(0, 4000, 2), *range(1, 4000, 2)], "b": ["x" * 40] * 4000})
    for half in (rows[:2000], rows[2000:]):
        write_deltalake(str(tmp_path), half, mode="append")

    assert put_together(DeltaTable(str(tmp_path)), tmp_path, cluster_by=["a"]) == 2
    assert put_together(DeltaTable(str(tmp_path)), tmp_path, cluster_by=["a"]) == 0

    found = DeltaTable(str(tmp_path)).to_pyarrow_table()
    assert found["a"].to_pylist() == [*range(4000)]


def test_files_of_fewer_columns_are_merged(tmp_path: Path) -> None:
    """The rows of older files stay null in a column that the table got later."""
    path, before = tmp_path / "results", pa.schema([("a", pa.int64()), ("b", pa.string())])
    now = pa.schema([("note", pa.string()), *before])
    table = DeltaTable.create(str(path), before)
    rows = [{"a": number, "b": "old"} for number in range(2)]
    for row in rows:
        commit_files(
            table, write_files(FileTable(path, before), pa.Table.from_pylist([row], before)), transactions=[]
        )
    table.alter.add_columns([Field("note", PrimitiveType("string"))])
    new = {"a": 2, "b": "new", "note": "x"}
    commit_files(table, write_files(FileTable(path, now), pa.Table.from_pylist([new], now)), transactions=[])

    assert put_together(DeltaTable(path), path) == 3

    found = sorted(DeltaTable(path).to_pyarrow_table().to_pylist(), key=lambda row: row["a"])
    assert found == [*({**row, "note": None} for row in rows), new]
