"""Conditions of a pipeline file: SQL expressions that are true of a row or of a pair, or not.

A condition that fails on a row, such as `a + b > 0` if the sum overflows, does not hold for that row, as if
it were unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from endmark.errors import ConfigError
from endmark.expressions.expression import Expression

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

_BOOLEAN = "BOOLEAN"


@dataclass(frozen=True)
class Answer:
    """The outcome of a condition for the rows of a batch.

    Args:
        holds: for each row, whether the condition is true; it is not if it is false, unknown or failed.
        failed: the positions of the rows on which the condition failed, in rising order.
        why: DuckDB's error for the first of these rows, in one line; empty if there are none.
    """

    holds: NDArray[np.bool_]
    failed: NDArray[np.int64]
    why: str = ""


@dataclass(frozen=True)
class Condition:
    """A condition that has been checked. It is a plain value, which Spark sends to tasks.

    Args:
        text: the SQL expression.
        columns: the columns that the expression names.
        field: the condition's field in the pipeline file, for errors.
    """

    text: str
    columns: tuple[str, ...]
    field: str = "where"

    @classmethod
    def of(cls, text: str, schema: pa.Schema, field: str = "where") -> Condition:
        """Check a condition over rows and return it.

        Args:
            text: the condition in SQL.
            schema: the columns of the rows.
            field: the condition's field in the pipeline file, for errors.

        Raises:
            ConfigError: the text is not a boolean expression of only these columns.
        """
        expression = Expression.of(text, schema, field)
        if not expression.columns:
            raise ConfigError(f"{field}: it names no column, so it is the same for all rows; leave it out")
        if expression.kind != _BOOLEAN:
            raise ConfigError(f"{field}: {text!r} is of type {expression.kind}, but must be a condition")
        return cls(text, expression.columns, field)

    def ask(self, rows: pa.RecordBatch) -> Answer:
        """Evaluate the condition on each row of a batch, which must have the condition's columns."""
        verdict = self._verdict
        found = verdict.values(rows)
        why = verdict.error(rows.slice(int(found.failed[0]), 1)) if len(found.failed) else ""
        return Answer(np.asarray(found.values.fill_null(False), bool), found.failed, why)

    def error(self, row: pa.RecordBatch) -> str:
        """Return DuckDB's error for a row on which the condition failed, in one line."""
        return self._verdict.error(row)

    @property
    def _verdict(self) -> Expression:
        return Expression(f"({self.text}\n) IS TRUE", self.columns, _BOOLEAN, self.field)
