"""Conditions of a pipeline file: SQL over the columns of a row or of a candidate pair, evaluated by DuckDB a
batch at a time.

A condition is one expression of columns, constants, operators and functions whose value depends on nothing
else. Whatever could read something else (a subquery, a file, the clock, chance) is refused before any row is
read, and the connection that evaluates it reaches neither files nor the network.

A condition fails on a row on which it cannot be evaluated, such as `a + b > 0` where the sum overflows. It
is not true of that row, as if it were unknown. DuckDB evaluates it as it is written, without its optimizer:
that would take some of what fails out of it, by rules and by what it knows of other rows.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa

from endmark.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from endmark.state.search import Bools, Ints

# How DuckDB calls the kinds of expressions that depend on nothing but the columns of one row.
_ALLOWED = {
    "BETWEEN",
    "CASE",
    "CAST",
    "COLLATE",
    "COLUMN_REF",
    "COMPARISON",
    "CONJUNCTION",
    "CONSTANT",
    "FUNCTION",
    "OPERATOR",
}
# Its types of expressions of which a part may be evaluated for some rows alone.
_BRANCHES = {"CASE_EXPR", "OPERATOR_COALESCE", "OPERATOR_TRY"}

# Levels of an expression, of which the serialized form has two for each. Python reads 1,000 levels at most,
# and a task's calls have taken some of them.
_DEEPEST = 200

_OWN = threading.local()


@dataclass(frozen=True)
class Answer:
    """The outcome of a condition for the rows of a batch.

    Args:
        holds: the rows of which it is true: not false, not unknown, and it did not fail.
        failed: positions of the rows on which it failed, the least first.
        why: how it failed on the first of these, in a line.
    """

    holds: Bools
    failed: Ints
    why: str = ""


@dataclass(frozen=True)
class Condition:
    """A condition that has been checked; a plain value that travels with a task.

    Args:
        text: the SQL expression.
        columns: those it speaks of.
        field: where it stands in the pipeline file.
    """

    text: str
    columns: tuple[str, ...]
    field: str = "join.where"

    @classmethod
    def of(cls, text: str, schema: pa.Schema, field: str = "join.where") -> Condition:
        """Check a condition over rows and return it.

        Args:
            text: the condition in SQL.
            schema: the columns of the rows.
            field: the field of the pipeline file, for errors.

        Raises:
            ConfigError: it is no boolean expression of these columns alone.
        """
        try:
            expression = duckdb.SQLExpression(text)
            columns = _columns(str(expression), schema, field)
            nothing = pa.Table.from_batches([], schema=pa.schema([schema.field(name) for name in columns]))
            kind = _connection().from_arrow(nothing).filter(expression).select(expression).types[0]
        except duckdb.Error as error:
            raise ConfigError(f"{field}: {_first_line(error)}; write one SQL condition") from error
        except RecursionError:
            raise ConfigError(
                f"{field}: the condition nests more than {_DEEPEST} levels deep; set parentheses so that it "
                "nests less, or split it"
            ) from None
        if str(kind) != "BOOLEAN":
            raise ConfigError(f"{field}: {text!r} is of type {kind}, but must be a condition")
        return cls(text, columns, field)

    def ask(self, rows: pa.RecordBatch) -> Answer:
        """Evaluate the condition on each row of a batch that has its columns."""
        verdict = f"({self.text}\n) IS TRUE"
        try:
            column = _evaluated(verdict, [rows])
        except duckdb.Error:
            # In DuckDB 1.5, TRY around a branch spoils other memory, but for the first row of a vector.
            pieces = [rows.slice(at, 1) for at in range(rows.num_rows)] if _branches(self.text) else [rows]
            column = _evaluated(f"TRY({verdict})", pieces)
        failed = np.flatnonzero(np.asarray(column.is_null()))
        why = self._why(rows.slice(int(failed[0]), 1)) if len(failed) else ""
        return Answer(np.asarray(column.fill_null(False), bool), failed, why)

    def _why(self, row: pa.RecordBatch) -> str:
        try:
            _evaluated(f"({self.text}\n) IS TRUE", [row])
        except duckdb.Error as error:
            return _first_line(error)
        return "it failed beside other rows only"


def _evaluated(expression: str, pieces: list[pa.RecordBatch]) -> pa.ChunkedArray:
    """The values of an SQL expression, for the rows of all pieces in turn."""
    relation = _connection().from_arrow(pa.Table.from_batches(pieces))
    return relation.select(duckdb.SQLExpression(expression)).to_arrow_table().column(0)


def _connection() -> duckdb.DuckDBPyConnection:
    """One for each thread, since a result is its connection's, on one thread like the task it serves, and
    with every door shut."""
    if not hasattr(_OWN, "connection"):
        shut: dict[str, str | bool | int | float | list[str]] = {
            "enable_external_access": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
            "threads": 1,
        }
        connection = duckdb.connect(":memory:", config=shut)
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("PRAGMA disable_optimizer")
        connection.execute("SET lock_configuration = true")
        _OWN.connection = connection
    own: duckdb.DuckDBPyConnection = _OWN.connection
    return own


def _columns(expression: str, schema: pa.Schema, field: str) -> tuple[str, ...]:
    """The columns an expression names, spelled as in `schema`; SQL does not tell capitals from small."""
    spelled = {name.lower(): name for name in schema.names}
    named: dict[str, None] = {}
    for node in _parsed(expression):
        kind = node["class"]
        if kind not in _ALLOWED:
            what = kind.replace("_", " ").lower()
            raise ConfigError(f"{field}: a {what} is not allowed; compare columns alone")
        if kind == "FUNCTION" and node["function_name"].lower() not in _pure_functions():
            name = node["function_name"]
            raise ConfigError(
                f"{field}: {name!r} is no function that depends on its arguments alone; leave it out"
            )
        if kind == "COLUMN_REF":
            name = ".".join(node["column_names"])
            if name.lower() not in spelled:
                raise ConfigError(f"{field}: no column {name!r}; there are {', '.join(schema.names)}")
            named[spelled[name.lower()]] = None
    if not named:
        raise ConfigError(f"{field}: it names no column, so it is the same for all rows; leave it out")
    return tuple(named)


@cache
def _branches(text: str) -> bool:
    """Return whether DuckDB may evaluate a part of an expression for some rows alone."""
    return any(node["type"] in _BRANCHES for node in _parsed(str(duckdb.SQLExpression(text))))


def _parsed(expression: str) -> list[dict[str, Any]]:
    """Return every part of an expression.

    Raises:
        RecursionError: the expression nests more than `_DEEPEST` levels deep.
    """
    parsed = _connection().execute("SELECT json_serialize_sql(?)", [f"SELECT {expression}"]).fetchone()
    return list(_nodes(json.loads(parsed[0] if parsed else "{}"), 0))


def _nodes(tree: Any, depth: int) -> Iterator[dict[str, Any]]:
    """Return every expression of a serialized statement; `depth` is how many expressions are around it."""
    if isinstance(tree, dict):
        if "class" in tree:
            if depth == _DEEPEST:
                raise RecursionError
            yield tree
            depth += 1
        tree = list(tree.values())
    if isinstance(tree, list):
        for branch in tree:
            yield from _nodes(branch, depth)


@cache
def _pure_functions() -> frozenset[str]:
    found = _connection().execute(
        "SELECT function_name FROM duckdb_functions() WHERE function_type = 'scalar' "
        "GROUP BY function_name HAVING bool_and(stability = 'CONSISTENT')"
    )
    return frozenset(name for (name,) in found.fetchall())


def _first_line(error: duckdb.Error) -> str:
    return str(error).splitlines()[0]
