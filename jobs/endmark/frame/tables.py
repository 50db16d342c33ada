"""Writes a frame to Delta tables, exactly once: its rows, and its control rows by their kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    AnsiIntervalType,
    ArrayType,
    CalendarIntervalType,
    DataType,
    MapType,
    StringType,
    StructType,
    TimeType,
    VariantType,
)

from endmark.engine import frame_rejects
from endmark.engine.channels import DEAD_LETTER_SCHEMA
from endmark.engine.streams import spark_type
from endmark.errors import ConfigError
from endmark.frame.projection import column
from endmark.frame.sinks import DEAD_LETTERS, OF, PUNCTUATIONS, TEXT, VIOLATIONS, apart, make_private
from endmark.spark.tables import append, prepare

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame

    from endmark.wire.renamed_punctuations import Renaming

_ROWS = "rows"
_NOT_HELD = (VariantType, AnsiIntervalType, CalendarIntervalType, TimeType)
SCHEMAS = {
    PUNCTUATIONS: pa.schema([("punctuation", pa.string())]),
    DEAD_LETTERS: pa.schema([pa.field("frame", pa.string()), *DEAD_LETTER_SCHEMA]),
    VIOLATIONS: pa.schema(
        [
            ("frame", pa.string()),
            ("reason", pa.string()),
            ("record", pa.string()),
            ("promise", pa.string()),
        ]
    ),
}


@dataclass(frozen=True)
class _Table:
    path: Path
    schema: pa.Schema
    partition_by: tuple[str, ...] = ()


def require_storable(columns: StructType) -> None:
    """Check that a Delta table can hold all columns of a frame, before the table is made.

    delta-rs makes a table of texts for a column of variants, so Spark could write no row to it.

    Raises:
        ConfigError: a column has a type that no table of ours can hold.
    """
    for field in columns:
        if not _is_storable(field.dataType):
            raise ConfigError(
                f"column {field.name} is {field.dataType.simpleString()}, which a table does not hold; cast "
                "it, or leave it out"
            )


def _is_storable(kind: DataType) -> bool:
    match kind:
        case ArrayType():
            return _is_storable(kind.elementType)
        case MapType():
            return _is_storable(kind.keyType) and _is_storable(kind.valueType)
        case StructType():
            return all(_is_storable(field.dataType) for field in kind)
        case StringType():
            return kind.isUTF8BinaryCollation()
    return not isinstance(kind, _NOT_HELD)


class FrameTables:
    """A sink for `foreachBatch`. It writes rows first, so that no punctuation is in a table before its rows.

    Args:
        punctuations: the name of the column of punctuations.
        renaming: the change of the frame's column names since its punctuations were written.
        path: the directory of the table of rows.
        schema: the columns of the table of rows.
        others: the directories of the other tables to write, by their name in `SCHEMAS`.
        app_id: the identity of the query.
        checkpoint: the directory of the query's checkpoint.
    """

    def __init__(
        self,
        punctuations: str,
        renaming: Renaming,
        path: Path,
        schema: pa.Schema,
        others: Mapping[str, Path],
        app_id: str,
        checkpoint: Path,
    ) -> None:
        self._punctuations = punctuations
        self._renaming = renaming
        self._rows = _Table(path, schema)
        self._others = {name: _Table(where, SCHEMAS[name]) for name, where in others.items()}
        self._app_id = app_id
        tables = {_ROWS: self._rows} | self._others
        for table in tables.values():
            make_private(table.path)
        prepare(tables, app_id, checkpoint)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        with apart(batch, self._punctuations, self._renaming) as (rows, control):
            if not rows.isEmpty():
                append(rows, self._rows.path, self._app_id, batch_id)
            found = {row[OF] for row in control.select(OF).distinct().collect()} if self._others else set()
            for name in self._others.keys() & found:
                table = _READ[name](control.where(column(OF) == name).select(TEXT))
                append(table, self._others[name].path, self._app_id, batch_id)


def _punctuations(texts: DataFrame) -> DataFrame:
    return texts.toDF("punctuation")


def _dead_letters(texts: DataFrame) -> DataFrame:
    found = _members(texts, frame_rejects.DEAD_LETTER, DEAD_LETTERS, value="string", base64="string")
    original = F.coalesce(F.unbase64("base64"), F.encode("value", "UTF-8"))
    return found.withColumn("value", original).drop("base64")


def _violations(texts: DataFrame) -> DataFrame:
    return _members(texts, frame_rejects.VIOLATION, VIOLATIONS)


def _members(texts: DataFrame, mark: str, table: str, **kinds: str) -> DataFrame:
    """Read the columns of a table from texts. Inner objects stay text.

    Args:
        texts: JSON objects with one member.
        mark: the name of this member, whose value has the columns.
        table: the name of the table in `SCHEMAS`.
        kinds: the types of other members to read, and of columns that are read as another type.
    """
    known = {field.name: spark_type(field.type) for field in SCHEMAS[table]} | kinds
    inner = ", ".join(f"`{name}` {kind}" for name, kind in known.items())
    return texts.select(F.from_json(TEXT, f"`{mark}` struct<{inner}>").alias("all")).select(f"all.`{mark}`.*")


_READ = {PUNCTUATIONS: _punctuations, DEAD_LETTERS: _dead_letters, VIOLATIONS: _violations}
