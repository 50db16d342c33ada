"""The stream join on streaming DataFrames, in Spark itself."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from endmark.errors import ConfigError
from endmark.spark import dataframe
from endmark.spark.dataframe import stream_join

SCHEMA = pa.schema(
    [
        ("shop", pa.string()),
        ("day", pa.date32()),
        ("price", pa.decimal128(18, 2)),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
WINDOW = timedelta(seconds=10)
Row = tuple[str, int, str, int]

# Shop, day, price and second; one inner list is one batch. The last batch of a side moves its time; it has a
# right row that is late.
LEFT: list[list[Row]] = [
    [("north", 1, "2.00", 0), ("north", 2, "1.00", 1)],
    [("south", 1, "5.00", 5)],
    [("", 9, "0.00", 60)],
]
RIGHT: list[list[Row]] = [
    [("north", 1, "2.00", 0)],
    [("north", 1, "1.99", 6), ("south", 1, "7.00", 9)],
    [("north", 2, "9.00", 8), ("", 8, "0.00", 60)],
]


def streamed(spark: SparkSession, directory: Path, batches: list[list[Row]], first: int) -> DataFrame:
    """A stream that reads one batch at a time; `first` numbers them."""
    directory.mkdir(exist_ok=True)
    for number, rows in enumerate(batches, start=first):
        values = [
            (
                shop,
                date(2026, 1, day),
                Decimal(price),
                datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second),
            )
            for shop, day, price, second in rows
        ]
        columns = [
            pa.array(column, field.type)
            for column, field in zip(zip(*values, strict=True), SCHEMA, strict=True)
        ]
        file = directory / f"{number}.parquet"
        pq.write_table(pa.table(columns, schema=SCHEMA), file)
        os.utime(file, (1e9 + number, 1e9 + number))  # Spark reads files in the order of their age
    reader = spark.readStream.schema("shop string, day date, price decimal(18,2), at timestamp")
    return reader.option("maxFilesPerTrigger", 1).parquet(str(directory))


def results(
    spark: SparkSession, directory: Path, batches: slice = slice(None), **join: Any
) -> list[tuple[Any, ...]]:
    left, right = (
        streamed(spark, directory / side, rows[batches], batches.start or 0)
        for side, rows in (("left", LEFT), ("right", RIGHT))
    )
    usual: dict[str, Any] = {
        "on": ["shop", "day"],
        "time": "at",
        "window": WINDOW,
    }
    joined = stream_join(left, right, **(usual | join))
    found: list[tuple[Any, ...]] = []

    def collect(batch: DataFrame, _: int) -> None:
        names = [name for name in batch.columns if name.endswith(("_shop", "_price"))]
        found.extend(tuple(row) for row in batch.select(names).collect())

    query = (
        joined.writeStream.foreachBatch(collect)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sorted(found, key=repr)


def test_full_join_with_a_condition(spark: SparkSession, tmp_path: Path) -> None:
    """Pairs of equal shop and day that meet the condition, and the others beside nulls once time has left
    them behind; a late row is left out, and rows of the last batch are still waiting."""
    two, one, five, seven = Decimal("2.00"), Decimal("1.00"), Decimal("5.00"), Decimal("7.00")

    found = results(spark, tmp_path, how="full", where="right_price >= left_price")

    assert found == sorted(
        [
            ("north", two, "north", two),
            ("south", five, "south", seven),
            ("north", one, None, None),
            (None, None, "north", Decimal("1.99")),
        ],
        key=repr,
    )


def test_semi_join_shows_the_left_side(spark: SparkSession, tmp_path: Path) -> None:
    """Each left row with a partner once."""
    assert results(spark, tmp_path, how="semi") == [("north", Decimal("2.00")), ("south", Decimal("5.00"))]


MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
# A value of every type that results pass Python in as columns, and one that they do not.
TYPED = {
    "tinyint": 1,
    "bigint": 2**62,
    "double": 0.5,
    "boolean": True,
    "string": "é",
    "binary": bytearray(b"\0"),
    "date": date(1969, 12, 31),
    "timestamp": datetime(2026, 1, 1, 1, 1, 1, 1),  # noqa: DTZ001  # as Spark gives it
    "decimal(38,2)": Decimal("-0.01"),
}
NESTED = {"array<string>": ["a", None]}


@pytest.mark.parametrize("types", [TYPED, TYPED | NESTED], ids=["flat", "nested"])
def test_values_of_all_types_and_nulls_come_out_as_they_were(
    spark: SparkSession, tmp_path: Path, types: dict[str, Any]
) -> None:
    ddl = ", ".join(f"c{at} {kind}" for at, kind in enumerate(types))
    schema = f"k bigint, at timestamp, {ddl}"
    for side in ("left", "right"):
        rows = [(1, MOMENT, *types.values()), (2, MOMENT, *(None for _ in types))]
        written = spark.createDataFrame(rows, schema).coalesce(1).write
        written.parquet(str(tmp_path / side))
    left, right = (
        spark.readStream.schema(schema).parquet(str(tmp_path / side)) for side in ("left", "right")
    )
    joined = stream_join(left, right, on="k", time="at", window=WINDOW)
    found: list[tuple[Any, ...]] = []
    shown = [f"{side}_c{at}" for side in ("left", "right") for at in range(len(types))]

    def collect(batch: DataFrame, _: int) -> None:
        found.extend(tuple(row) for row in batch.orderBy("left_k").select(shown).collect())

    query = joined.writeStream.foreachBatch(collect).option("checkpointLocation", f"{tmp_path}/checkpoint")
    query.trigger(availableNow=True).start().awaitTermination()

    assert found == [(*types.values(), *types.values()), (None,) * len(shown)]


def test_another_join_on_the_same_checkpoint_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Before it touches the state, with what differs; the one that made the checkpoint goes on."""
    assert results(spark, tmp_path, slice(1), how="semi") == [("north", Decimal("2.00"))]
    rest = slice(1, None)

    with pytest.raises(StreamingQueryException, match="preset was auto, is wjoin; go back to them, or start"):
        results(spark, tmp_path, rest, how="semi", preset="wjoin")
    with pytest.raises(StreamingQueryException, match=r"on was shop string, day .*, is shop string; go back"):
        results(spark, tmp_path, rest, how="semi", on="shop")
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    try:
        with pytest.raises(
            StreamingQueryException, match=r"spark.sql.shuffle.partitions was 2, is 3; go back"
        ):
            results(spark, tmp_path, rest, how="semi")
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
    assert results(spark, tmp_path, rest, how="semi") == [("south", Decimal("5.00"))]


def test_results_of_another_form_are_refused_by_a_checkpoint(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark refuses a checkpoint made before results were columns, before it touches the state."""
    as_columns = dataframe._COLUMNS
    monkeypatch.setattr(dataframe, "_COLUMNS", ())
    assert results(spark, tmp_path, slice(1), how="semi") == [("north", Decimal("2.00"))]
    rest = slice(1, None)

    monkeypatch.setattr(dataframe, "_COLUMNS", as_columns)
    with pytest.raises(StreamingQueryException, match="STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"):
        results(spark, tmp_path, rest, how="semi")

    monkeypatch.setattr(dataframe, "_COLUMNS", ())
    assert results(spark, tmp_path, rest, how="semi") == [("south", Decimal("5.00"))]


@pytest.mark.parametrize(
    ("join", "complaint"),
    [
        ({"how": "outer"}, "how: 'outer' is not one of inner, left, right, full, semi"),
        ({"on": "city"}, "on, time: the left frame has no column city"),
        ({"on": "score"}, "on: column 'score' is double, which is no key; cast it to string"),
        ({"on": "size"}, "on: column 'size' is int32 on the left, int64 on the right; cast one"),
        ({"where": "left_cost > 1"}, r"where: no column 'left_cost'"),
        ({"on": []}, "on: it names no column"),
        (
            {"on": [("shop", "size")]},
            r"on: column \('shop', 'size'\) is string on the left, int64 on the right",
        ),
        ({"time": ("at", "then")}, "on, time: the right frame has no column then"),
        (
            {"on": "tag"},
            "on: column 'tag' has the collation UTF8_LCASE, but texts are compared by their bytes",
        ),
        ({"time": "shop"}, r"time: column 'shop' is string on the left, string on the right; cast both"),
        ({"time": "day"}, r"time: column 'day' is date32\[day\] on the left"),
        (
            {"time": ("at", "local")},
            r"time: .* is timestamp\[us, tz=UTC\] on the left, timestamp\[us\] on the",
        ),
        ({"lateness": timedelta(-1)}, "lateness: -1 day, 0:00:00 is not between 0 and"),
        ({"window": timedelta(seconds=-1)}, "window: -1 day, 23:59:59 is not between 0 and"),
        ({"window": "1 hour"}, r"window: '1 hour' is no timedelta; write one such as timedelta\(hours=1\)"),
        ({"lateness": 5}, "lateness: 5 is no timedelta"),
        ({"purge_every": 0}, "purge_every: 0 is less than 1"),
        ({"memory": -5}, "memory: -5 is less than 1"),
        ({"punctuations": "over"}, "punctuations: neither frame has a column 'over'"),
        ({"punctuations": "score"}, "punctuations: column 'score' is double; cast it to string"),
        (
            {"on": "local", "punctuations": "note"},
            r"on: column 'local' is timestamp\[us\], of which no punctuation",
        ),
        ({"punctuations": "Left_Shop"}, "punctuations: the result has a column 'Left_Shop' already"),
    ],
)
def test_what_cannot_be_joined_is_said(spark: SparkSession, join: dict[str, Any], complaint: str) -> None:
    """Before a query starts, with the argument that is wrong."""
    columns = "cast(value as string) shop, cast(value as double) score, timestamp at"
    columns += ", cast(timestamp as date) day, 'a' collate UTF8_LCASE tag"
    rate = spark.readStream.format("rate").load()
    local = "cast(timestamp as timestamp_ntz) local"
    left = rate.selectExpr(*columns.split(", "), "cast(value as int) size", local, "'' Left_Shop")
    right = rate.selectExpr(*columns.split(", "), "value size", local, "'' note")
    arguments: dict[str, Any] = {"on": "shop", "time": "at", "window": WINDOW}

    with pytest.raises(ConfigError, match=complaint):
        stream_join(left, right, **(arguments | join))


def test_workers_hold_the_engine_apart_from_garbage(spark: SparkSession) -> None:
    """Else each looks through all of its modules behind each task, for longer than a small task takes."""

    def held(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.record_batch({"objects": [gc.get_freeze_count()]})

    [row] = spark.range(1).mapInArrow(held, "objects bigint").collect()

    assert row.objects > 50_000
