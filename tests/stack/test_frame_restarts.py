"""Queries of frames that go on from a checkpoint: with other arguments they are refused before they start."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from endmark.errors import ConfigError
from endmark.frame import PunctuatedFrame

Program = Callable[..., PunctuatedFrame]


def rows(spark: SparkSession, base: Path, name: str, columns: str = "n bigint") -> PunctuatedFrame:
    """A frame over files, of which there is one for each start of the query."""
    schema = f"id bigint, {columns}, at timestamp, over string"
    return PunctuatedFrame(spark.readStream.schema(schema).json(f"{base}/{name}"), "over")


def came(base: Path, number: int, value: dict[str, Any]) -> None:
    for name in ("a", "b", "c"):
        (base / name).mkdir(exist_ok=True)
        row = {"id": number, "at": "2026-01-01T12:00:00Z", **value}
        over = {"over": json.dumps({"id": {"equals": number}})}
        (base / name / f"{number}.json").write_text(f"{json.dumps(row)}\n{json.dumps(over)}\n")


def run(frame: PunctuatedFrame, base: Path) -> int:
    """Run a query until it has read all files, and return the number of rows in its table."""
    frame.write_delta(base / "table", base / "checkpoint", available_now=True).awaitTermination()
    return int(DeltaTable(str(base / "table")).to_pyarrow_table().num_rows)


def joined(spark: SparkSession, base: Path, **arguments: Any) -> PunctuatedFrame:
    given: dict[str, Any] = {"on": "id", "time": "at", "window": timedelta(hours=1)}
    return rows(spark, base, "a").stream_join(rows(spark, base, "b"), **(given | arguments))


def joined_twice(spark: SparkSession, base: Path, **arguments: Any) -> PunctuatedFrame:
    first = joined(spark, base).select(F.col("left_id").alias("id"), F.col("left_at").alias("at"))
    given: dict[str, Any] = {"on": "id", "time": "at", "window": timedelta(hours=1)}
    return first.stream_join(rows(spark, base, "c"), **(given | arguments))


def counted(spark: SparkSession, base: Path, **measures: Any) -> PunctuatedFrame:
    return rows(spark, base, "a").aggregate("id", **(measures or {"rows": "count"}))


@pytest.mark.parametrize(
    ("program", "arguments", "says"),
    [
        (joined, {"how": "left"}, "how was inner, is left"),
        (joined, {"window": timedelta(hours=2)}, "window was 1:00:00, is 2:00:00"),
        (joined_twice, {"how": "left"}, "stream_join 2 of 2: how was inner, is left"),
        (counted, {"rows": "count", "sum": {"sum": "n"}}, "measures was rows: count , is rows: count"),
        (
            joined,
            None,
            "with 1 of stream_join and aggregate, but this query has 2 of them",
        ),
    ],
)
def test_other_arguments_are_refused_before_the_query_starts(
    spark: SparkSession, tmp_path: Path, program: Program, arguments: dict[str, Any] | None, says: str
) -> None:
    """They stopped the first batch, in the midst of a trace. The arguments of before go on."""
    came(tmp_path, 1, {"n": 1})
    before = run(program(spark, tmp_path), tmp_path)
    came(tmp_path, 2, {"n": 1})
    other = joined_twice(spark, tmp_path) if arguments is None else program(spark, tmp_path, **arguments)

    with pytest.raises(ConfigError) as refused:
        run(other, tmp_path)

    assert says in str(refused.value)
    assert str(tmp_path / "checkpoint") in str(refused.value)
    assert str(refused.value).endswith("go back to them, or start with a new checkpoint and an empty table")
    assert spark.streams.active == []
    assert run(program(spark, tmp_path), tmp_path) == before + 1


def test_another_number_of_partitions_is_refused_before_the_query_starts(
    spark: SparkSession, tmp_path: Path
) -> None:
    came(tmp_path, 1, {"n": 1})
    run(joined(spark, tmp_path), tmp_path)
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    try:
        with pytest.raises(ConfigError, match=r"spark.sql.shuffle.partitions was 2, is 3; go back"):
            run(joined(spark, tmp_path), tmp_path)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")


def test_arguments_may_change_until_a_batch_is_planned(spark: SparkSession, tmp_path: Path) -> None:
    """There is no state yet, so a first query that cannot start keeps nothing from changing."""
    came(tmp_path, 1, {"n": 1})
    table = tmp_path / "table"
    table.touch()
    with pytest.raises(FileExistsError):
        run(joined(spark, tmp_path, how="left"), tmp_path)
    table.unlink()

    assert run(joined(spark, tmp_path), tmp_path) == 1


def test_a_field_within_a_struct_is_refused_before_the_query_starts(
    spark: SparkSession, tmp_path: Path
) -> None:
    came(tmp_path, 1, {"who": {"name": "ann", "age": 7}})
    columns = "who struct<name string, age bigint>"
    run(rows(spark, tmp_path, "a", columns), tmp_path)
    came(tmp_path, 2, {"who": {"name": "bo", "age": 8}})
    assert run(rows(spark, tmp_path, "a", "who struct<age bigint, name string>"), tmp_path) == 2

    with pytest.raises(ConfigError, match=r"has struct<age:long,name:string> as who, but this version"):
        run(rows(spark, tmp_path, "a", "who struct<name string, age bigint, born date>"), tmp_path)
    assert run(rows(spark, tmp_path, "a", columns), tmp_path) == 2
