"""Publishes a frame to a Kafka topic, at least once: rows, and punctuations to their partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from endmark.errors import ConfigError
from endmark.frame.projection import column
from endmark.frame.sinks import OF, PUNCTUATIONS, TEXT, apart
from endmark.wire.json.column import is_restrictable, kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from endmark.spark.publish import OutputTopic
    from endmark.types import ColumnType
    from endmark.wire.renamed_punctuations import Renaming


class FrameTopic:
    """A sink for `foreachBatch`. All rows of a batch are acknowledged before its first punctuation is sent.

    Args:
        punctuations: the name of the column of punctuations.
        renaming: the change of the frame's column names since its punctuations were written.
        key: the columns by which records are keyed.
        topic: the topic, made for the frame's columns and this key.
    """

    def __init__(self, punctuations: str, renaming: Renaming, key: Sequence[str], topic: OutputTopic) -> None:
        self._punctuations = punctuations
        self._renaming = renaming
        self._key = key
        self._topic = topic

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        with apart(batch, self._punctuations, self._renaming) as (rows, control):
            texts = control.where(column(OF) == PUNCTUATIONS).select(column(TEXT).alias("punctuation"))
            named = F.coalesce(_names(self._key, column("punctuation")), F.lit(False))
            patterns = [row["punctuation"] for row in texts.where(~named).collect()]
            some = None if rows.isEmpty() else rows
            self._topic.publish(some, texts.where(named), patterns, batch_id)


def wire_columns(rows: pa.Schema, key: Sequence[str]) -> dict[str, ColumnType]:
    """Return the columns of a frame with the types by which the wire format spells them.

    Raises:
        ConfigError: the wire format has no spelling for a column, or the frame has no such key.
    """
    columns = {field.name: field.type for field in rows}
    if missing := [name for name in key if name not in columns]:
        raise ConfigError(f"key: the frame has no column {', '.join(missing)}; name others")
    if odd := [name for name, kind in columns.items() if not is_restrictable(kind)]:
        raise ConfigError(
            f"column {odd[0]} is {columns[odd[0]]}, which a record has no spelling for; cast it, or leave it "
            "out"
        )
    return {name: kind_of(kind) for name, kind in columns.items()}


def _names(key: Sequence[str], text: Column) -> Column:
    """Return whether a punctuation names one value of each key column, and restricts no other column."""
    if not key:
        return F.lit(False)
    named = F.array_sort(F.json_object_keys(text)) == F.array(*map(F.lit, sorted(key)))
    for name in key:
        named &= F.get_json_object(text, f"$['{name}'].equals").isNotNull()
    return named
