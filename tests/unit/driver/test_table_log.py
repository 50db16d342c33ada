"""Commits of batches to Delta tables while somebody else commits, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from endmark.driver import table_log
from endmark.driver.table_log import TableLog
from endmark.engine import delta_log
from endmark.engine.upsert import upsert
from support.upserted_table import UpsertedTable, group


def beside(monkeypatch: pytest.MonkeyPatch, *happens: Callable[[], Any]) -> list[int]:
    """Let things happen between what an upsert has read and its commit, one at each attempt; the list gets a
    number for each attempt."""
    attempts: list[int] = []

    def attempt(*arguments: Any) -> Any:
        done = upsert(*arguments)
        if len(attempts) < len(happens):
            happens[len(attempts)]()
        attempts.append(len(attempts))
        return done

    monkeypatch.setattr(table_log, "upsert", attempt)
    return attempts


def test_an_upsert_begins_again_when_its_files_were_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody merges small files of open groups, and then adds a row that the upsert has not seen."""
    table = UpsertedTable(tmp_path)
    table.upsert([group(item, 0) for item in range(8)], 0, tasks=1)
    table.upsert([group(item, 1) for item in (8, 9)], 1, tasks=1)

    def merge() -> None:
        assert DeltaTable(str(table.path)).optimize.compact()["numFilesRemoved"] == 2

    def append() -> None:
        TableLog(table.target.files(), (), "other").commit(table.write([group(3, 9)]), 0)

    attempts = beside(monkeypatch, merge, append)
    table.upsert([group(3, 2), group(10, 2)], 2)

    assert attempts == [0, 1, 2]
    assert [(row["item"], row["batch"]) for row in table.rows()] == [
        *((item, 2 if item == 3 else 0) for item in range(8)),
        (8, 1),
        (9, 1),
        (10, 2),
    ]


def test_another_attempt_has_committed_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that was believed dead, say: its rows are the same."""
    table = UpsertedTable(tmp_path)
    files = table.write([group(1, 0)])
    attempts = beside(monkeypatch, lambda: TableLog(table.target.files(), (), "app").commit(files, 0))
    table.upsert([group(1, 0)], 0)

    assert attempts == [0]
    assert table.rows() == [group(1, 0)]


def test_a_commit_that_fails_for_another_reason_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else has committed, so the next attempt would fail, too."""
    table = UpsertedTable(tmp_path)

    def fail(*_: Any, **__: Any) -> None:
        raise CommitFailedError("no space left")

    monkeypatch.setattr(delta_log, "commit_files", fail)
    with pytest.raises(CommitFailedError, match="no space left"):
        table.upsert([group(1, 0)], 0)
    assert table.rows() == []


def test_files_of_other_writers_are_upserted(tmp_path: Path) -> None:
    """Those of delta-rs lie in directories by partition, whose names are escaped."""
    table = UpsertedTable(tmp_path, "country")
    rows = [group(item, 0) | {"country": country} for item, country in enumerate(["x/=y %", None, "de"])]
    table.upsert([row | {"item": item} for item, row in enumerate(2 * rows)], 0, tasks=1)
    table.upsert([row | {"item": item} for item, row in enumerate(rows, 6)], 1, tasks=1)
    assert DeltaTable(str(table.path)).optimize.compact()["numFilesRemoved"] == 6
    assert any("country=" in file for file in table.files(final=False))

    table.upsert([group(item, 9) for item in range(3)], 9)

    found = {row["item"]: (row["country"], row["batch"]) for row in table.rows()}
    assert found == dict.fromkeys(range(3), (None, 9)) | {
        item: (rows[item % 3]["country"], 0) for item in range(3, 9)
    }
    assert pa.table(DeltaTable(str(table.path)).scan()).num_rows == 9


def test_the_history_has_rows_files_and_bytes_of_each_batch(tmp_path: Path) -> None:
    table = UpsertedTable(tmp_path)
    table.upsert([group(item, 0) for item in range(5)], 0, tasks=2)
    table.upsert([group(0, 1)], 1)

    last, first = (each["operationMetrics"] for each in DeltaTable(str(table.path)).history()[:2])
    assert (first["numFiles"], first["numOutputRows"], first["numRemovedFiles"]) == ("2", "5", "0")
    added = sum(int(metrics["numOutputBytes"]) for metrics in (first, last))
    left = sum(pa.table(DeltaTable(str(table.path)).get_add_actions())["size_bytes"].to_pylist())
    assert added - int(last["numRemovedBytes"]) == left
