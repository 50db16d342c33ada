"""Rewrites the column of punctuations with the present column names, and leaves data rows as they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.functions import arrow_udf

from endmark.engine import frame_rejects
from endmark.frame.projection import column
from endmark.wire.renamed_punctuations import Renamer

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from endmark.wire.renamed_punctuations import Renaming

FRAME = "frame"  # the name in dead letters of a frame that is no input of a join
_WRITTEN = "$written"


def rewritten(frame: DataFrame, punctuations: str, renaming: Renaming) -> DataFrame:
    """Rewrite a frame's control rows with its present column names, and drop punctuations on lost columns.

    Args:
        frame: the frame.
        punctuations: the name of its text column, which is null in a data row.
        renaming: the change of the column names since the punctuations were written.
    """
    texts = column(punctuations)
    written = frame.withColumn(_WRITTEN, _written(renaming, texts))
    kept = written.where(texts.isNull() | column(_WRITTEN).isNotNull())
    return kept.withColumn(punctuations, column(_WRITTEN)).drop(_WRITTEN)


def _written(renaming: Renaming, texts: Column) -> Column:
    def write(columns: Iterator[pa.Array]) -> Iterator[pa.Array]:
        writer = Writer(renaming)
        return map(writer, columns)

    # Spark would call a deterministic function twice: for the filter, and again for the column.
    function = arrow_udf(write, "string")  # type: ignore[call-overload]  # its hints say which kind it is
    written: Column = function.asNondeterministic()(texts)
    return written


class Writer:
    """Rewrites a column of text with the present column names. Null stays null."""

    def __init__(self, renaming: Renaming) -> None:
        self._renamer = Renamer(renaming, FRAME)

    def __call__(self, texts: pa.Array) -> pa.Array:
        if texts.null_count == len(texts):
            return texts
        texts = texts.cast(pa.string())  # they are large strings if the session says so
        # Dead letters and violations of earlier steps pass unchanged.
        mine = pc.and_not(
            texts.is_valid(), pc.fill_null(pc.match_substring_regex(texts, frame_rejects.MARKED), False)
        )
        given = texts.filter(mine)
        renamed = self._renamer(given)
        written = renamed.texts
        if renamed.rejected:
            letters = frame_rejects.dead_letters(
                FRAME, [(given[at].as_buffer().to_pybytes(), why) for at, why in renamed.rejected]
            )
            bad = np.zeros(len(given), bool)
            bad[[at for at, _ in renamed.rejected]] = True
            written = pc.replace_with_mask(written, pa.array(bad), letters.column(0))
        return pc.replace_with_mask(texts, mine, written)
