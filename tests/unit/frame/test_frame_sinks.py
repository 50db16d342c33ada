"""The directories that the arguments of a frame's sinks name, and the columns that tables can hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampNTZType,
    VariantType,
)

from endmark.errors import ConfigError
from endmark.frame.sinks import directories
from endmark.frame.tables import require_storable


@pytest.mark.parametrize("named", ["/a/b", "file:///a/b", "file:/a/b", Path("/a/b"), Path("file:/a/b")])
def test_a_uri_of_a_file_is_its_path(named: Path | str) -> None:
    """It was the name of a directory `./file:`, so a start from elsewhere had another checkpoint."""
    assert directories(path=named, violations=None) == {"path": Path("/a/b")}


@pytest.mark.parametrize("named", ["s3a://b/c", "hdfs://b/c", "file://host/c", "dbfs:/c", Path("s3://b/c")])
def test_a_uri_of_another_scheme_is_refused(named: Path | str) -> None:
    with pytest.raises(ConfigError, match=r"checkpoint: .*/c is no directory of this machine"):
        directories(checkpoint=named)


def test_a_directory_has_one_use() -> None:
    with pytest.raises(ConfigError, match="checkpoint: t is also path; name another directory"):
        directories(path="../" + Path.cwd().name + "/t", checkpoint="t")
    assert directories(path="t", checkpoint="t/c")["path"] == Path("t")


@pytest.mark.parametrize(
    ("kind", "spelled"),
    [
        (VariantType(), "variant"),
        (StringType("UTF8_LCASE"), "string collate UTF8_LCASE"),
        (CalendarIntervalType(), "interval"),
        (ArrayType(DayTimeIntervalType()), "array<interval day to second>"),
        (MapType(StringType(), StructType().add("in", VariantType())), "map<string,struct<in:variant>>"),
    ],
)
def test_a_column_that_no_table_holds_is_refused(kind: DataType, spelled: str) -> None:
    """Most of them made a table to which Spark could not write the first batch."""
    with pytest.raises(ConfigError) as refused:
        require_storable(StructType().add("id", LongType()).add("odd", kind))
    assert str(refused.value) == (
        f"column odd is {spelled}, which a table does not hold; cast it, or leave it out"
    )


def test_columns_that_a_table_holds() -> None:
    kinds = [NullType(), TimestampNTZType(), DecimalType(38, 38), ArrayType(StringType())]
    columns = StructType()
    for number, kind in enumerate(kinds):
        columns.add(str(number), kind)
    require_storable(columns)
