"""Frames in sessions of several time zones, which say how times are shown and never change them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from endmark.frame import PunctuatedFrame
from endmark.pipeline import Relation
from endmark.spark.dataframe import stream_join
from support.relations import Database

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
# Half an hour apart through the nights in which a local hour is there twice, and in which one is not there.
NIGHTS = [
    datetime(2026, 10, 24, 23, tzinfo=UTC),  # Berlin's 02:00 to 03:00 twice
    datetime(2026, 11, 1, 4, tzinfo=UTC),  # New York's 01:00 to 02:00 twice
    datetime(2026, 3, 29, 0, tzinfo=UTC),
    datetime(2026, 3, 8, 6, tzinfo=UTC),
]
TIMES = sorted(night + HOUR * half / 2 for night in NIGHTS for half in range(6))
AT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("slot", AT), ("at", AT), ("seen", pa.list_(AT)), ("over", pa.string())])
DDL = "slot timestamp, at timestamp, seen array<timestamp>, over string"


def control(text: Any) -> dict[str, Any]:
    return {"slot": TIMES[0], "over": json.dumps(text)}


def spelled(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def write(directory: Path, later: timedelta) -> None:
    """Two batches: rows, one of them without a time; then what is over, and a row that breaks a promise."""
    directory.mkdir()
    first: list[dict[str, Any]] = [{"slot": at, "at": at + later, "seen": [at, None]} for at in TIMES]
    first += [{"slot": TIMES[0], "at": None}]
    first += [control({"slot": {"equals": spelled(at)}}) for at in TIMES[:3]]
    second = [{"slot": TIMES[0], "at": TIMES[-1]}]
    second += [control({"slot": {"between": {"to": spelled(TIMES[-1])}}}), control({"none": 1})]
    for number, rows in enumerate((first, second)):
        file = directory / f"{number}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), file)
        os.utime(file, (1e9 + number, 1e9 + number))  # Spark reads files in the order of their age


def shown(base: Path, name: str) -> list[str]:
    """The rows of a table, with its times as the numbers they are stored as."""
    rows = DeltaTable(str(base / name)).to_pyarrow_table().to_pylist()
    return sorted(str({column: _as_utc(value) for column, value in row.items()}) for row in rows)


def _as_utc(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_utc(each) for each in value]
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value


def run(spark: SparkSession, zone: str, base: Path) -> dict[str, list[str]]:
    """Return the rows of steps of frames, and of a join of plain frames, in a session of this zone."""
    relation = _shifts(base)
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    for side, later in (("left", timedelta(0)), ("right", MINUTE)):
        write(base / side, later)

    def stream(side: str, files: int = 2) -> DataFrame:
        reader = session.readStream.schema(DDL).option("maxFilesPerTrigger", files)
        return reader.parquet(str(base / side))

    left = PunctuatedFrame(stream("left", files=1), "over").lookup_join(
        relation, on="slot", how="left", prefix="shift"
    )
    right = PunctuatedFrame(stream("right", files=1), "over")
    joined = left.stream_join(
        right, on="slot", how="left", where="left_at < right_at", time="at", window=HOUR
    )
    groups = PunctuatedFrame(stream("left"), "over").aggregate(
        "slot", ordered_by="at", n="count", newest={"max": "at"}, first={"first": "at"}
    )
    for name, frame in {"rows": joined, "groups": groups}.items():
        query = frame.write_delta(
            base / name,
            base / f"{name}-checkpoint",
            punctuations=base / f"{name}-over",
            dead_letters=base / f"{name}-wrong",
            violations=base / f"{name}-broken",
            available_now=True,
        )
        query.awaitTermination()
    told = ["rows", "rows-over", "rows-wrong", "rows-broken", "groups", "groups-over", "groups-wrong"]
    return {name: shown(base, name) for name in told} | {"plain": _plain(stream, base)}


def _shifts(base: Path) -> Relation:
    """A relation whose key is a time; every other one is there."""
    database = Database(f"sqlite:///{base / 'relation.db'}")
    shifts = [(at.strftime("%Y-%m-%d %H:%M:%S.%f"),) * 2 for at in TIMES[::2]]
    database.create("shifts", "slot DATETIME PRIMARY KEY, began DATETIME NOT NULL", shifts)
    columns = {"slot": "timestamp", "began": "timestamp"}
    declared = {"url": database.url, "table": "shifts", "key": "slot", "columns": columns}
    return Relation.model_validate(declared)


def _plain(stream: Callable[[str], DataFrame], base: Path) -> list[str]:
    """The join without punctuations, whose results come as columns."""
    left, right = (
        stream(side).where("over is null and at is not null").drop("over", "seen")
        for side in ("left", "right")
    )
    plain = stream_join(left, right, on="slot", time="at", window=HOUR)
    numbers = [F.unix_micros(name).cast("string") for name in plain.columns]
    found: list[str] = []

    def collect(batch: DataFrame, _: int) -> None:
        found.extend(row[0] for row in batch.select(F.concat_ws(" ", *numbers)).collect())

    writer = plain.writeStream.foreachBatch(collect).trigger(availableNow=True)
    writer.option("checkpointLocation", str(base / "plain-checkpoint")).start().awaitTermination()
    return sorted(found)


@pytest.fixture(scope="module")
def expected(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    found = run(spark, "UTC", tmp_path_factory.mktemp("utc"))
    assert len(found["rows"]) == len(found["groups"]) == len(TIMES)
    assert len(found["plain"]) == len(TIMES) + 1  # with the row that breaks a promise
    assert all(found.values()), found
    return found


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
def test_the_zone_of_a_session_changes_nothing(
    spark: SparkSession, expected: dict[str, list[str]], zone: str, tmp_path: Path
) -> None:
    """Results, groups, punctuations, dead letters and violations are those under UTC, also where the clock
    changes."""
    assert run(spark, zone, tmp_path) == expected
