"""Ends a sink that Spark interrupts with a short error.

`StreamingQuery.stop` interrupts a batch. Spark then looks for the name of an interruption in the error of the
sink, by an expression that calls itself for each character. An error with a trace of Java has thousands, and
Spark printed 1,000 lines of a `StackOverflowError`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    Write = Callable[[DataFrame, int], None]

_INTERRUPTIONS = re.compile(
    r"java\.(?:lang\.InterruptedException|io\.InterruptedIOException|nio\.channels\.ClosedByInterruptException)"
)


class InterruptedSinkError(Exception):
    """Spark has interrupted a sink. The text has the words for which Spark looks."""


def shortly_interrupted(write: Write) -> Write:
    """Return a function that writes batches, too, and raises a short error when it is interrupted.

    Args:
        write: a function for `foreachBatch`.
    """

    def written(batch: DataFrame, number: int) -> None:
        try:
            write(batch, number)
        except Py4JJavaError as error:
            if (found := _INTERRUPTIONS.search(str(error))) is None:
                raise
            raise InterruptedSinkError(
                f"py4j.protocol.Py4JJavaError: An error occurred while calling Java: {found[0]}"
            ) from None

    return written
