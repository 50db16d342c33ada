"""Files of Delta tables: what they hold, what the log says of them, and that a batch is committed once."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from endmark.driver.checkpoint import claimed
from endmark.driver.table_log import TableLog
from endmark.engine import channels
from endmark.engine.delta_files import FileTable, OutputFiles, TaskFiles
from endmark.pipeline.tables import final_role, running_role
from endmark.profile import Profile
from endmark.spark.tables import Target, prepare
from endmark.state import codec

GROUPS, RUNNING = final_role("by_item"), running_role("by_item")
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(38, 2)),
        ("score", pa.float64()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("open", pa.bool_()),
        ("raw", pa.binary()),
        ("scores", pa.list_(pa.float64())),
    ]
)
BIG = Decimal("123456789012345678901234567890123456.78")
FULL = {
    "id": -7,
    "name": 'å"\n',
    "price": BIG,
    "score": -0.5,
    "day": date(1969, 12, 31),
    "at": datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
    "open": True,
    "raw": b"\xff",
    "scores": [0.5, 1.0],
}
EMPTY: dict[str, Any] = dict.fromkeys(SCHEMA.names)
Passed = list[tuple[str, bytes | pa.RecordBatch]]


def results(*rows: dict[str, Any]) -> tuple[str, pa.RecordBatch]:
    return channels.RESULTS, pa.RecordBatch.from_pylist(list(rows), schema=SCHEMA)


def through(output: OutputFiles, number: int, *parts: tuple[str, bytes | pa.RecordBatch]) -> Passed:
    """Return what leaves a task, its files with it, but not its last profile."""
    task = TaskFiles(output, number, Profile())
    left = [(channel, rows) for channel, rows in parts if not task.take(channel, rows)]
    *files, (last, profile) = task.finish()
    assert last == channels.METRICS
    assert json.loads(profile)["samples"].keys() == {"profile_seconds_total{phase=files}"}
    return left + files


def written(
    table: FileTable, *parts: tuple[str, bytes | pa.RecordBatch]
) -> tuple[list[dict[str, Any]], Passed]:
    """The files of a task, and what it has passed on beside them."""
    left = through(OutputFiles({channels.RESULTS: table}), 3, *parts)
    files = [json.loads(blob) for channel, blob in left if channel == channels.FILES]
    return files, [(channel, rows) for channel, rows in left if channel != channels.FILES]


@pytest.fixture
def target(tmp_path: Path) -> Target:
    found = Target(channels.RESULTS, tmp_path / "results", SCHEMA)
    with claimed(tmp_path / "checkpoint"):
        prepare({"results": found}, "app", tmp_path / "checkpoint")
    return found


def test_rows_of_a_task_make_one_file_and_the_rest_passes(target: Target) -> None:
    metrics = channels.METRICS, b'{"samples": {}}'
    channel, more = results(EMPTY, FULL)

    files, passed = written(target.files(), results(FULL), metrics, (channel, codec.encode(more)))
    TableLog(target.files(), (), "app").commit(files, 3)

    assert passed == [metrics]
    assert [file["channel"] for file in files] == [channels.RESULTS]
    table = DeltaTable(str(target.path))
    found = table.to_pyarrow_table().to_pylist()
    assert sorted(found, key=repr) == sorted([FULL, EMPTY, FULL], key=repr)
    assert table.transaction_version("app") == 3
    assert written(target.files(), metrics) == ([], [metrics])


def test_rows_for_topics_leave_the_task(target: Target) -> None:
    """Rows that a topic gets leave the task, and those of a table are in its files, too."""
    output = OutputFiles({channels.RESULTS: target.files()}, frozenset({channels.RESULTS, GROUPS}))

    *passed, (last, _) = through(output, 0, results(FULL), (GROUPS, b"x"))

    assert passed == [results(FULL), (GROUPS, b"x")]
    assert last == channels.FILES


def test_published_rows_are_written_once_on_their_way_through_two_stages(target: Target) -> None:
    other = Target(GROUPS, target.path, SCHEMA)
    tables = {channels.RESULTS: target.files(), GROUPS: other.files()}
    output = OutputFiles(tables, frozenset({channels.RESULTS}))
    groups = GROUPS, results(EMPTY)[1]

    first = through(output.before_last(()), 0, results(FULL), groups)
    last = through(output, 0, *first)

    files = [json.loads(blob)["channel"] for channel, blob in last if channel == channels.FILES]
    assert sorted(files) == [GROUPS, channels.RESULTS]
    assert [part for part in last if part[0] != channels.FILES] == [results(FULL)]


def test_a_batch_is_committed_once(target: Target) -> None:
    """Though a second attempt has written files, too, and by a job that was started again."""
    for log in (TableLog(target.files(), (), "app"), TableLog(target.files(), (), "app")):
        for _ in range(2):
            files, _passed = written(target.files(), results(FULL))
            log.commit(files, 0)

    table = DeltaTable(str(target.path))
    assert (table.version(), table.to_pyarrow_table().num_rows) == (1, 1)


def test_the_log_says_what_a_file_holds(target: Target) -> None:
    """Decimals are there to the last digit, times are cut to milliseconds, and strings to 32 characters.

    A greatest string that is cut ends with the greatest character, so that it is greater than what was cut.
    """
    other = FULL | {"id": 9, "name": "z" * 40, "price": Decimal("-1.05"), "score": -2.5}

    last = FULL | {"name": "ö" * 40}

    [file], _ = written(target.files(), results(FULL, last), results(other, EMPTY))
    [alone], _ = written(target.files(), results(FULL))

    stats = json.loads(file["stats"], parse_float=Decimal)
    assert stats["numRecords"] == 4
    assert stats["nullCount"] == dict.fromkeys(SCHEMA.names, 1)
    at = "2026-01-02T03:04:05.678Z"
    same = {"day": "1969-12-31", "at": at, "open": True}
    least = {"id": -7, "name": "z" * 32, "price": Decimal("-1.05"), "score": Decimal("-2.5")}
    most = {"id": 9, "name": "ö" * 32 + "\U0010ffff", "price": BIG, "score": Decimal(str(FULL["score"]))}
    assert stats["minValues"] == least | same
    assert stats["maxValues"] == most | same
    assert json.loads(alone["stats"])["maxValues"]["name"] == FULL["name"]


@pytest.mark.parametrize(
    "without_bound", [{"score": float("nan")}, {"score": float("-inf")}, {"name": "\U0010ffff" * 40}]
)
def test_the_log_says_nothing_of_a_file_that_has_no_bounds(
    target: Target, without_bound: dict[str, Any]
) -> None:
    [file], _ = written(target.files(), results(FULL, FULL | without_bound))

    assert json.loads(file["stats"]) == {"numRecords": 2}


def test_a_task_with_many_rows_writes_several_files(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps no more rows in memory than that; the files hold each row once."""
    monkeypatch.setattr("endmark.engine.delta_files._WAITING_BYTES", 500)
    rows = [FULL | {"id": number} for number in range(20)]

    files, _ = written(target.files(), *(results(row) for row in rows))
    TableLog(target.files(), (), "app").commit(files, 0)

    assert 1 < len(files) < len(rows)
    found = DeltaTable(str(target.path)).to_pyarrow_table().to_pylist()
    assert sorted(row["id"] for row in found) == [*range(20)]


def test_the_number_of_the_batch(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("batch", pa.int64())])
    target = Target(RUNNING, tmp_path / "running", schema, numbered=True)
    with claimed(tmp_path / "checkpoint"):
        prepare({"running": target}, "app", tmp_path / "checkpoint")
    output = OutputFiles({RUNNING: target.files()})
    [(_, file)] = through(output, 5, (RUNNING, pa.record_batch({"id": [1, 2]})))

    assert isinstance(file, bytes)
    TableLog(target.files(), (), "app").commit([json.loads(file)], 5)

    assert DeltaTable(str(target.path)).to_pyarrow_table().to_pylist() == [
        {"id": 1, "batch": 5},
        {"id": 2, "batch": 5},
    ]
