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
from endmark.engine.delta_files import DeltaFiles, FileTable
from endmark.spark.tables import Target, prepare
from endmark.state import codec

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


def packed(*rows: tuple[str, bytes]) -> pa.RecordBatch:
    names, blobs = zip(*rows, strict=True)
    return pa.record_batch({"channel": list(names), "blob": pa.array(blobs, pa.binary())})


def results(*rows: dict[str, Any]) -> tuple[str, bytes]:
    return channels.RESULTS, codec.encode(pa.RecordBatch.from_pylist(list(rows), schema=SCHEMA))


def written(
    table: FileTable, *batches: pa.RecordBatch
) -> tuple[list[dict[str, Any]], list[tuple[str, bytes]]]:
    """The files of a task, and what it has passed on beside its profile."""
    files, passed = [], []
    for batch in DeltaFiles({channels.RESULTS: table})(iter(batches)):
        for channel, blob in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if channel == channels.FILES:
                files.append(json.loads(blob))
            elif b"profile_seconds_total{phase=files}" not in blob:
                passed.append((channel, blob))
    return files, passed


@pytest.fixture
def target(tmp_path: Path) -> Target:
    found = Target(channels.RESULTS, tmp_path / "results", SCHEMA)
    with claimed(tmp_path / "checkpoint"):
        prepare({"results": found}, "app", tmp_path / "checkpoint")
    return found


def test_rows_of_a_task_make_one_file_and_the_rest_passes(target: Target) -> None:
    metrics = channels.METRICS, b'{"samples": {}}'
    batches = packed(results(FULL), metrics), packed(results(EMPTY, FULL))

    files, passed = written(target.files(3), *batches)
    TableLog(target.files(), (), "app").commit(files, 3)

    assert passed == [metrics]
    assert [file["channel"] for file in files] == [channels.RESULTS]
    table = DeltaTable(str(target.path))
    found = table.to_pyarrow_table().to_pylist()
    assert sorted(found, key=repr) == sorted([FULL, EMPTY, FULL], key=repr)
    assert table.transaction_version("app") == 3
    assert written(target.files(3), packed(metrics)) == ([], [metrics])


def test_rows_that_are_only_published_go_into_no_table(target: Target) -> None:
    """Rows that are passed on have one schema in all batches of a task."""
    files = DeltaFiles({channels.GROUPS: target.files(0)}, [channels.RESULTS])
    metrics = channels.METRICS, b'{"samples": {}}'

    found = list(files(iter([packed(results(FULL), metrics)])))

    assert {name for batch in found for name in batch.column("channel").to_pylist()} == {channels.METRICS}
    assert sum(batch.num_rows for batch in found) == 2


def test_a_batch_is_committed_once(target: Target) -> None:
    """Though a second attempt has written files, too, and by a job that was started again."""
    for log in (TableLog(target.files(), (), "app"), TableLog(target.files(), (), "app")):
        for _ in range(2):
            files, _passed = written(target.files(0), packed(results(FULL)))
            log.commit(files, 0)

    table = DeltaTable(str(target.path))
    assert (table.version(), table.to_pyarrow_table().num_rows) == (1, 1)


def test_the_log_says_what_a_file_holds(target: Target) -> None:
    """As Delta spells it: decimals to the last digit, times cut to milliseconds, strings that are long as far
    as a bound goes; nothing of a column with a NaN."""
    other = FULL | {"id": 9, "name": "z" * 40, "price": Decimal("-1.05"), "score": float("nan")}

    last = FULL | {"name": "ö" * 40}

    [file], _ = written(target.files(0), packed(results(FULL, last)), packed(results(other, EMPTY)))
    [alone], _ = written(target.files(0), packed(results(FULL)))

    stats = json.loads(file["stats"], parse_float=Decimal)
    assert stats["numRecords"] == 4
    assert stats["nullCount"] == dict.fromkeys(SCHEMA.names, 1)
    at = "2026-01-02T03:04:05.678Z"
    least = {"id": -7, "name": "z" * 32, "price": Decimal("-1.05"), "day": "1969-12-31", "at": at}
    assert stats["minValues"] == least
    assert stats["maxValues"] == {"id": 9, "price": BIG, "day": "1969-12-31", "at": at}
    assert json.loads(alone["stats"])["maxValues"]["name"] == FULL["name"]


def test_a_task_with_many_rows_writes_several_files(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps no more rows in memory than that; the files hold each row once."""
    monkeypatch.setattr("endmark.engine.delta_files._WAITING_BYTES", 500)
    rows = [FULL | {"id": number} for number in range(20)]

    files, _ = written(target.files(0), *(packed(results(row)) for row in rows))
    TableLog(target.files(), (), "app").commit(files, 0)

    assert 1 < len(files) < len(rows)
    found = DeltaTable(str(target.path)).to_pyarrow_table().to_pylist()
    assert sorted(row["id"] for row in found) == [*range(20)]


def test_the_number_of_the_batch(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("batch", pa.int64())])
    target = Target(channels.RUNNING, tmp_path / "running", schema, numbered=True)
    with claimed(tmp_path / "checkpoint"):
        prepare({"running": target}, "app", tmp_path / "checkpoint")
    rows = codec.encode(pa.record_batch({"id": [1, 2]}))
    [*_, told] = DeltaFiles({channels.RUNNING: target.files(5)})(iter([packed((channels.RUNNING, rows))]))

    TableLog(target.files(), (), "app").commit([json.loads(told.column("blob")[0].as_py())], 5)

    assert DeltaTable(str(target.path)).to_pyarrow_table().to_pylist() == [
        {"id": 1, "batch": 5},
        {"id": 2, "batch": 5},
    ]
