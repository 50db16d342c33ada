"""Row steps: a condition on the rows of a stream, columns derived from others, and a choice of columns.

A step applies its parts in this order: `where`, `derive`, then `select` or `drop`. So derived columns are
computed only for rows that `where` keeps, from the columns in front of the step.

A row on which an expression fails is neither kept nor filtered. A derived value must also be one that a
record could bring: a finite double, and a date or time in the years 1 to 9999. Otherwise the expression has
failed, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.domain import Domain
from endmark.errors import ConfigError
from endmark.expressions.condition import Condition
from endmark.expressions.expression import Expression
from endmark.types import ColumnType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

# The errors of a batch that are DuckDB's own for their row. Asking for one takes 0.7 ms.
_EXPLAINED = 100

_PLAIN = {
    "BIGINT": ColumnType.LONG,
    "BOOLEAN": ColumnType.BOOLEAN,
    "DATE": ColumnType.DATE,
    "DOUBLE": ColumnType.DOUBLE,
    "TIMESTAMP WITH TIME ZONE": ColumnType.TIMESTAMP,
    "VARCHAR": ColumnType.STRING,
}
_SMALLER = ("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER")
_DECIMAL = re.compile(r"DECIMAL\(\d+,\d+\)")


@dataclass(frozen=True)
class Derivation:
    """A derived column: its expression and its type, which is nullable."""

    expression: Expression
    kind: ColumnType

    @classmethod
    def of(cls, text: str, schema: pa.Schema, field: str) -> Derivation:
        """Check the expression of a derived column and infer the column's type.

        Args:
            text: the expression in SQL.
            schema: the columns that the expression may name.
            field: the expression's field in the pipeline file, for errors.

        Raises:
            ConfigError: the text is no expression of these columns, or no column can have its type.
        """
        expression = Expression.of(text, schema, field)
        found = expression.kind
        if found in _SMALLER:
            kind = ColumnType.LONG
        elif found in _PLAIN:
            kind = _PLAIN[found]
        elif _DECIMAL.fullmatch(found):
            kind = ColumnType.parse(found.lower())
        else:
            names = ", ".join([*_PLAIN, "DECIMAL(18,2)"])
            raise ConfigError(
                f"{field}: {text!r} is of type {found}, which no column has; cast it to one of {names}"
            )
        return cls(expression, replace(kind, nullable=True))


@dataclass(frozen=True)
class RowStep:
    """A row step that has been checked. It is a plain value, which Spark sends to tasks.

    Args:
        name: the name of the step.
        columns: the types of the columns behind the step, by name, in order.
        where: the condition that rows must meet; `None` keeps all.
        derived: the derived columns, by name.
    """

    name: str
    columns: Mapping[str, ColumnType]
    where: Condition | None = None
    derived: Mapping[str, Derivation] = field(default_factory=dict)

    @property
    def added(self) -> dict[str, ColumnType]:
        """The types of the derived columns that the step does not lose again, by name."""
        return {column: kind for column, kind in self.columns.items() if column in self.derived}

    @classmethod
    def of(
        cls,
        name: str,
        columns: Mapping[str, ColumnType],
        *,
        where: str | None = None,
        derive: Mapping[str, str] | None = None,
        select: Sequence[str] = (),
        drop: Sequence[str] = (),
        prefix: str = "",
    ) -> RowStep:
        """Check a row step and return it.

        Args:
            name: the name of the step.
            columns: the types of the columns in front of the step, by name.
            where: the condition that rows must meet; `None` keeps all.
            derive: the expressions of derived columns, by name.
            select: the columns to keep; empty keeps all.
            drop: the columns to lose.
            prefix: stands before the names that derived columns get.

        Raises:
            ConfigError: an expression is none over these columns, a derived column is there already, or a
                column to keep or lose is not there. The error names the field.
        """
        schema = pa.schema([(column, kind.arrow) for column, kind in columns.items()])
        condition = None if where is None else Condition.of(where, schema, f"steps.{name}.where")
        derived: dict[str, Derivation] = {}
        for own, text in (derive or {}).items():
            field, column = f"steps.{name}.derive.{own}", f"{prefix}{own}"
            taken = {other.lower(): other for other in [*columns, *derived]}
            if (other := taken.get(column.lower())) is not None:  # SQL ignores the case of letters
                raise ConfigError(f"{field}: there is a column {other!r} already; name another one")
            derived[column] = Derivation.of(text, schema, field)
        found = {**columns, **{column: derivation.kind for column, derivation in derived.items()}}
        for part, named in (("select", select), ("drop", drop)):
            for column in named:
                if column not in found:
                    raise ConfigError(
                        f"steps.{name}.{part}: no column {column!r}; there are {', '.join(found)}"
                    )
        chosen = [column for column in select or found if column not in drop]
        return cls(name, {column: found[column] for column in chosen}, condition, derived)


@dataclass(frozen=True)
class Failure:
    """A row on which an expression failed.

    Args:
        at: the position of the row.
        field: the field of the expression.
        why: what failed.
    """

    at: int
    field: str
    why: str

    @property
    def error(self) -> str:
        """The field of the expression, and what failed."""
        return f"{self.field}: {self.why}"


def by_field(failures: Sequence[Failure]) -> Iterator[tuple[str, list[Failure]]]:
    """Yield the field of each expression that has failed, and its failures in the order of rows."""
    for name, failed in groupby(sorted(failures, key=attrgetter("field")), key=attrgetter("field")):
        yield name, list(failed)


@dataclass(frozen=True)
class Stepped:
    """Rows behind row steps.

    Args:
        rows: the rows that are left, with the columns behind the last step.
        at: their positions among the rows in front of the first step, ascending.
        filtered: the number of rows that each step's `where` has filtered, by the step's name.
        failures: the rows on which an expression failed, ascending.
    """

    rows: pa.RecordBatch
    at: NDArray[np.int64]
    filtered: Mapping[str, int] = field(default_factory=dict)
    failures: Sequence[Failure] = ()


def run(steps: Iterable[RowStep], rows: pa.RecordBatch) -> Stepped:
    """Return rows behind row steps, in the same order."""
    at = np.arange(rows.num_rows)
    filtered: dict[str, int] = {}
    failures: list[Failure] = []
    for step in steps:
        if step.where is not None:
            answer = step.where.ask(_inputs(step.where, rows))
            failures += _failures(step.where, rows, answer.failed, at)
            filtered[step.name] = rows.num_rows - int(answer.holds.sum()) - len(answer.failed)
            rows, at = rows.filter(pa.array(answer.holds)), at[answer.holds]
        sound, found = np.ones(rows.num_rows, bool), dict(zip(rows.schema.names, rows.columns, strict=True))
        for column, derivation in step.derived.items():
            values = derivation.expression.values(_inputs(derivation.expression, rows))
            found[column] = values.values.cast(derivation.kind.arrow)
            failed = values.failed[sound[values.failed]]
            failures += _failures(derivation.expression, rows, failed, at)
            unfit = np.flatnonzero(_unfit(derivation.kind, found[column]) & sound)
            failures += _unfit_values(derivation, unfit, at)
            sound[failed] = sound[unfit] = False
        rows = pa.record_batch({column: found[column] for column in step.columns})
        if not sound.all():
            rows, at = rows.filter(pa.array(sound)), at[sound]
    return Stepped(rows, at, filtered, sorted(failures, key=lambda failure: failure.at))


def _unfit(kind: ColumnType, values: pa.Array) -> NDArray[np.bool_]:
    """Return a mask of the values that no record could bring."""
    if kind.domain is Domain.DOUBLE:
        fit = pc.is_finite(values)
    elif kind.domain in (Domain.DATE, Domain.TIMESTAMP):
        ordinals = values.cast(pa.int32() if kind.domain is Domain.DATE else pa.int64())
        fit = pc.and_(pc.greater_equal(ordinals, kind.domain.bottom), pc.less(ordinals, kind.domain.top))
    else:
        return np.zeros(len(values), bool)
    return np.asarray(pc.fill_null(pc.invert(fit), False), bool)


def _unfit_values(derivation: Derivation, unfit: NDArray[np.int64], at: NDArray[np.int64]) -> list[Failure]:
    """Return the failures of values that no record could bring.

    Args:
        derivation: the derived column.
        unfit: the positions of the unfit values.
        at: the positions of all rows in front of the first step.
    """
    field = derivation.expression.field
    why = "NaN or infinite" if derivation.kind.domain is Domain.DOUBLE else "not in the years 1 to 9999"
    return [Failure(int(row), field, f"the value is {why}") for row in at[unfit]]


def _failures(
    asked: Condition | Expression, rows: pa.RecordBatch, failed: NDArray[np.int64], at: NDArray[np.int64]
) -> list[Failure]:
    """Return the failures of one expression. Most are rare, so each is asked for its own error.

    Args:
        asked: the expression.
        rows: the rows in front of its step.
        failed: the positions in `rows` of the rows on which it failed.
        at: the positions of all these rows in front of the first step.
    """
    inputs = _inputs(asked, rows)
    errors = [asked.error(inputs.slice(int(row), 1)) for row in failed[:_EXPLAINED]]
    others = [f"it failed, like on {_EXPLAINED} rows before"] * (len(failed) - len(errors))
    return [
        Failure(int(row), asked.field, error) for row, error in zip(at[failed], errors + others, strict=True)
    ]


def _inputs(asked: Condition | Expression, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns that an expression names. A constant gets one column, which counts the rows."""
    return rows.select(list(asked.columns) or rows.schema.names[:1])
