"""Upkeep of the Delta tables acts or refuses; tests/faults runs it beside a job."""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Field, Transaction, write_deltalake
from deltalake.schema import PrimitiveType

from endmark.embedded.claim import claimed
from endmark.engine.delta_files import FileTable, write_files
from endmark.engine.delta_log import commit_files
from endmark.errors import ConfigError, EndmarkError, MissingPartError
from endmark.maintenance import cluster, expired_entries, maintain, merge, merge_final
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


def appended(path: Path, count: int) -> None:
    for value in range(count):
        write_deltalake(str(path), pa.table({"a": [value]}), mode="append")


def test_rows_stay_as_they_are_beside_appends_and_are_not_doubled(tmp_path: Path) -> None:
    """An append in between is no conflict. If somebody else has rewritten the same files, nothing changes."""
    appended(tmp_path, 5)
    table, other = DeltaTable(str(tmp_path)), DeltaTable(str(tmp_path))
    appended(tmp_path, 1)
    assert merge(table, tmp_path) == 5
    rows = sorted(DeltaTable(str(tmp_path)).to_pyarrow_table()["a"].to_pylist())
    assert rows == [0, 0, 1, 2, 3, 4]

    with pytest.raises(EndmarkError, match="rewritten by somebody else"):
        merge(other, tmp_path)
    assert sorted(DeltaTable(str(tmp_path)).to_pyarrow_table()["a"].to_pylist()) == rows


def test_rows_that_are_sorted_are_not_silently_doubled(tmp_path: Path) -> None:
    """delta-rs does not see that somebody else has rewritten the same files. Once it does, this test fails,
    and the look at others' commits can go."""
    appended(tmp_path, 3)
    table, other = DeltaTable(str(tmp_path)), DeltaTable(str(tmp_path))
    assert cluster(table, tmp_path, ["a"]) == 3

    with pytest.raises(EndmarkError, match="rewritten by somebody else"):
        cluster(other, tmp_path, ["a"])
    assert DeltaTable(str(tmp_path)).to_pyarrow_table().num_rows == 6


def test_merged_files_say_of_their_rows_what_the_jobs_files_say(tmp_path: Path) -> None:
    """A timestamp of a partition keeps its zone, a null differs from a text that Hive writes for it, and a
    long value is no name of a directory. Statistics leave no NaN out."""
    path = tmp_path / "results"
    schema = pa.schema([("p", pa.timestamp("us", "UTC")), ("q", pa.string()), ("f", pa.float64())])
    table = DeltaTable.create(str(path), schema, partition_by=["p", "q"])
    written = FileTable(path, schema, partition_by=("p", "q"))
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for value in (1.0, float("nan")):
        rows = [{"p": at, "q": q, "f": value} for q in (None, "__HIVE_DEFAULT_PARTITION__", "京" * 100)]
        commit_files(table, write_files(written, pa.Table.from_pylist(rows, schema)), transactions=[])

    assert merge(DeltaTable(path), path) == 6

    found = DeltaTable(path)
    assert Counter(found.to_pyarrow_table()["q"].to_pylist()) == dict.fromkeys((row["q"] for row in rows), 2)
    log = (path / "_delta_log" / f"{found.version():020}.json").read_text()
    added = [action["add"] for action in map(json.loads, log.splitlines()) if "add" in action]
    assert {each["partitionValues"]["p"] for each in added} == {"2026-01-01T00:00:00.000000Z"}
    assert {each["stats"] for each in added} == {'{"numRecords":2}'}


def test_a_table_that_cannot_be_maintained_keeps_no_other_from_it(tmp_path: Path) -> None:
    for name in ("results", "dead_letters"):
        appended(tmp_path / name, 2)
    for file in (tmp_path / "results").glob("*.parquet"):
        file.write_bytes(b"no Parquet")

    first, second = sorted(maintain(SPEC, tmp_path, WEEK, dry_run=False), key=lambda done: done.table)

    assert (first.table, first.put_together, first.error) == ("dead_letters", 2, None)
    assert second.table == "results"
    assert second.error is not None


def test_versions_are_not_kept_longer_than_the_log_knows_them(tmp_path: Path) -> None:
    """Delta's log forgets a removed file after a week. Then nothing tells that an older version needs it."""
    appended(tmp_path / "results", 1)
    month = timedelta(days=30)

    with pytest.raises(ConfigError, match="deletedFileRetentionDuration of the table is 'interval 7"):
        maintain(SPEC, tmp_path, month, dry_run=False)

    table = DeltaTable(tmp_path / "results")
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 30 days"})
    [done] = maintain(SPEC, tmp_path, month, dry_run=False)
    assert done.error is None


def test_files_that_delta_rs_was_writing_are_removed(tmp_path: Path) -> None:
    """Its own vacuum skips them."""
    appended(tmp_path / "results", 1)
    torn, young = (tmp_path / "results" / f"part-{at}.zstd.parquet#1" for at in range(2))
    for file in (torn, young):
        file.touch()
    os.utime(torn, (0, 0))

    [done] = maintain(SPEC, tmp_path, WEEK, dry_run=False)

    assert (done.removed_files, torn.exists(), young.exists()) == (1, False, True)


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

    assert cluster(DeltaTable(str(tmp_path)), tmp_path, ["a"]) == 2
    assert cluster(DeltaTable(str(tmp_path)), tmp_path, ["a"]) == 0

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

    assert merge(DeltaTable(path), path) == 3

    found = sorted(DeltaTable(path).to_pyarrow_table().to_pylist(), key=lambda row: row["a"])
    assert found == [*({**row, "note": None} for row in rows), new]
