"""A frame as Delta tables, exactly once: its rows, and what its column of punctuations says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from endmark.engine import frame_rejects
from endmark.engine.channels import DEAD_LETTER_SCHEMA
from endmark.engine.streams import spark_type
from endmark.frame.projection import column
from endmark.frame.sinks import DEAD_LETTERS, OF, PUNCTUATIONS, TEXT, VIOLATIONS, apart
from endmark.spark.tables import append, prepare

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame

    from endmark.wire.renamed_punctuations import Renaming

_ROWS = "rows"
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


class FrameTables:
    """A sink for `foreachBatch` that writes rows first, so that no table says of a group that it is over too
    early.

    Args:
        punctuations: the name of the column of punctuations.
        renaming: the names that the frame's punctuations use.
        path: the directory of the table of rows.
        schema: its columns.
        others: the directories of the tables of `SCHEMAS` that are to be written, by name.
        app_id: the identity of the query.
        checkpoint: the directory of its checkpoint.
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
        prepare({_ROWS: self._rows} | self._others, app_id, checkpoint)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        with apart(batch, self._punctuations, self._renaming) as (rows, said):
            if not rows.isEmpty():
                append(rows, self._rows.path, self._app_id, batch_id)
            found = {row[OF] for row in said.select(OF).distinct().collect()} if self._others else set()
            for name in self._others.keys() & found:
                texts = _READ[name](said.where(column(OF) == name).select(TEXT))
                append(texts, self._others[name].path, self._app_id, batch_id)


def _punctuations(said: DataFrame) -> DataFrame:
    return said.toDF("punctuation")


def _dead_letters(said: DataFrame) -> DataFrame:
    found = _members(said, frame_rejects.DEAD_LETTER, DEAD_LETTERS, value="string", base64="string")
    original = F.coalesce(F.unbase64("base64"), F.encode("value", "UTF-8"))
    return found.withColumn("value", original).drop("base64")


def _violations(said: DataFrame) -> DataFrame:
    return _members(said, frame_rejects.VIOLATION, VIOLATIONS)


def _members(said: DataFrame, mark: str, table: str, **kinds: str) -> DataFrame:
    """The columns of a table out of the member that marks its texts; inner objects stay text."""
    known = {field.name: spark_type(field.type) for field in SCHEMAS[table]} | kinds
    inner = ", ".join(f"`{name}` {kind}" for name, kind in known.items())
    return said.select(F.from_json(TEXT, f"`{mark}` struct<{inner}>").alias("all")).select(f"all.`{mark}`.*")


_READ = {PUNCTUATIONS: _punctuations, DEAD_LETTERS: _dead_letters, VIOLATIONS: _violations}
