"""SQL expressions of a pipeline file over the columns of a row, which DuckDB evaluates a batch at a time.

An expression consists of columns, constants, operators and functions. Its value must depend on nothing else.
An expression that could read something else (a subquery, a file, the clock, chance) is refused before any row
is read. The connection that evaluates expressions reaches neither files nor the network.

An expression fails on a row on which it cannot be evaluated, such as `a + b` if the sum overflows. DuckDB
evaluates expressions without its optimizer, which would remove some of the parts that fail, depending on
other rows.
"""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa

from endmark.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from numpy.typing import NDArray

# DuckDB's names for the kinds of expressions that depend only on the columns of one row.
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
# DuckDB's names for the types of expressions of which a part may be evaluated for only some rows.
_BRANCHES = {"CASE_EXPR", "OPERATOR_COALESCE", "OPERATOR_TRY"}
# DuckDB's macros that depend on their arguments alone. Some of them stand for branches.
_MACROS = {"date_add", "fdiv", "fmod", "nullif", "round_even", "split_part"}
# Functions of which DuckDB says the same, though they read the clock or DuckDB's own state.
_IMPURE = {
    "current_localtime",
    "current_localtimestamp",
    "current_setting",
    "getvariable",
    "vector_type",
    "version",
}

# The most rows that are evaluated one by one to find those that fail. This takes 25 µs a row, and any batch
# takes 0.4 ms at least.
_FEW = 64

# The levels of an expression. The serialized form has two levels for each of them. Python reads at most 1,000
# levels, and the calls of a task take some of these.
_DEEPEST = 200

_SELECT = "SELECT "  # stands before an expression that is parsed

# A name in SQL, in bytes of UTF-8, and what may stand around the point between two names.
_NAME = rb'(?:"(?:[^"]|"")*"|[A-Za-z_\x80-\xff][A-Za-z0-9_$\x80-\xff]*)'
_POINT = rb"(?:\s|/\*.*?\*/|--[^\n]*\n)*\.(?:\s|/\*.*?\*/|--[^\n]*\n)*"

_OWN = threading.local()


@dataclass(frozen=True)
class Values:
    """The values of an expression for the rows of a batch.

    Args:
        values: the value of each row; null where the expression failed.
        failed: the positions of the rows on which it failed, in rising order.
    """

    values: pa.Array
    failed: NDArray[np.int64]


@dataclass(frozen=True)
class Expression:
    """An expression that has been checked. It is a plain value, which Spark sends to tasks.

    Args:
        text: the SQL expression.
        columns: the columns that the expression names.
        kind: DuckDB's name of its type.
        field: its field in the pipeline file, for errors.
    """

    text: str
    columns: tuple[str, ...]
    kind: str
    field: str

    @classmethod
    def of(cls, text: str, schema: pa.Schema, field: str) -> Expression:
        """Check an expression over rows and return it.

        Args:
            text: the expression in SQL.
            schema: the columns of the rows.
            field: the expression's field in the pipeline file, for errors.

        Raises:
            ConfigError: the text is not an expression of only these columns.
        """
        try:
            expression = duckdb.SQLExpression(text)
            columns = _columns(str(expression), schema, field)
            nothing = pa.Table.from_batches(
                [], schema=pa.schema([schema.field(name) for name in schema.names])
            )
            kind = _connection().from_arrow(nothing).select(expression).types[0]
        except duckdb.Error as error:
            hint = _quoting(text, schema.names)
            raise ConfigError(f"{field}: {_first_line(error)}; write one SQL expression{hint}") from error
        except RecursionError:
            raise ConfigError(_too_deep(field)) from None
        return cls(text, columns, str(kind), field)

    def values(self, rows: pa.RecordBatch) -> Values:
        """Evaluate the expression on each row of a batch, which must have the expression's columns."""
        if not rows.num_rows:
            return Values(_no_values(self.text, rows.schema), np.zeros(0, np.int64))
        try:
            (values,) = _evaluated([f"({self.text}\n)"], [rows])
        except duckdb.Error:
            # In DuckDB 1.5, TRY around a branch damages memory for all but the first row of a vector.
            if not _branches(self.text):
                return self._tried([rows])
            if rows.num_rows <= _FEW:
                return self._tried([rows.slice(at, 1) for at in range(rows.num_rows)])
            half = rows.num_rows // 2
            first, second = self.values(rows.slice(0, half)), self.values(rows.slice(half))
            failed = np.concatenate([first.failed, second.failed + half])
            return Values(pa.concat_arrays([first.values, second.values]), failed)
        return Values(values, np.zeros(0, np.int64))

    def _tried(self, pieces: list[pa.RecordBatch]) -> Values:
        """Evaluate the expression on the rows of all pieces, of which some fail."""
        tried = [f"TRY(({self.text}\n))", f"TRY(({self.text}\n) IS NULL) IS NULL"]
        values, failed = _evaluated(tried, pieces)
        return Values(values, np.flatnonzero(np.asarray(failed, bool)))

    def error(self, row: pa.RecordBatch) -> str:
        """Return DuckDB's error for a row on which the expression failed, in one line."""
        try:
            _evaluated([f"({self.text}\n)"], [row])
        except duckdb.Error as error:
            return _first_line(error)
        return "it failed beside other rows only"


def renamed(text: str, name_of: Callable[[str], str], field: str) -> str:
    """Return an expression in which other names stand for the columns. All else stays as it is written.

    Args:
        text: the expression in SQL.
        name_of: returns the other name of a column, which may be written `origin.column`.
        field: the expression's field in the pipeline file, for errors.

    Raises:
        ConfigError: the text is no expression, or `name_of` has refused a column.
    """
    try:
        duckdb.SQLExpression(text)
        named = {
            node["query_location"]: node["column_names"]
            for node in _parsed(f"{text}\n")
            if node["class"] == "COLUMN_REF"
        }
        found, written = (
            {position: name_of(".".join(names)) for position, names in named.items()},
            _statement(text),
        )
    except duckdb.Error as error:
        raise ConfigError(f"{field}: {_first_line(error)}; write one SQL expression") from error
    except RecursionError:
        raise ConfigError(_too_deep(field)) from None
    except ValueError as error:
        raise ConfigError(f"{field}: {error}") from error
    for position in sorted(found, reverse=True):
        reference = re.compile(_POINT.join([_NAME] * len(named[position])), re.DOTALL).match(
            written, position
        )
        if reference is None:
            raise ConfigError(
                f"{field}: {'.'.join(named[position])!r} cannot be read there; write it in quotes"
            )
        written = written[:position] + f'"{found[position]}"'.encode() + written[reference.end() :]
    return written.decode().removeprefix(_SELECT).removesuffix("\n")


def tree(text: str) -> dict[str, Any]:
    """Return the parts of an expression that has been checked, as DuckDB's parser sees them."""
    (statement,) = _serialized(str(duckdb.SQLExpression(text)))["statements"]
    found: dict[str, Any] = statement["node"]["select_list"][0]
    return found


def constant(part: dict[str, Any]) -> pa.Scalar | None:
    """Return the value of a part of an expression that names no column; `None` if it cannot be evaluated.

    Args:
        part: the part, as in the result of `tree`.
    """
    selected = _serialized("NULL")
    selected["statements"][0]["node"]["select_list"] = [part]
    try:
        statement = _connection().execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(selected)])
        value: pa.Scalar = _connection().sql(str(*statement.fetchall()[0])).to_arrow_table()[0][0]
    except duckdb.Error:
        return None
    return value


@lru_cache(maxsize=256)
def _no_values(text: str, schema: pa.Schema) -> pa.Array:
    """Return the values of an expression for no rows.

    DuckDB would take a millisecond. In small batches of the simulation, 65 of 150 evaluations had no rows.
    """
    (values,) = _evaluated([f"({text}\n)"], [pa.RecordBatch.from_pylist([], schema)])
    return values


def _evaluated(expressions: list[str], pieces: list[pa.RecordBatch]) -> list[pa.Array]:
    """Return the values of SQL expressions for the rows of all pieces, in order."""
    # A small batch takes DuckDB 0.5 ms as a stream, and 1.2 ms as a table.
    relation = _connection().from_arrow(pa.Table.from_batches(pieces).__arrow_c_stream__())
    found = relation.select(*map(duckdb.SQLExpression, expressions)).to_arrow_table()
    return [
        pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        for column in found.columns
    ]


def _connection() -> duckdb.DuckDBPyConnection:
    """Return this thread's connection, which reaches neither files nor the network.

    Each thread has its own connection, since a result belongs to its connection. DuckDB uses one thread, like
    the task that calls it.
    """
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
    """Return the columns that an expression names, spelled as in `schema`, since SQL ignores case."""
    spelled = {name.lower(): name for name in schema.names}
    named: dict[str, None] = {}
    for node in _parsed(expression):
        kind = node["class"]
        if kind not in _ALLOWED:
            what = kind.replace("_", " ").lower()
            raise ConfigError(f"{field}: a {what} is not allowed; write an expression of columns alone")
        if kind == "FUNCTION":
            _require_pure(node["function_name"], len(node["children"]), field)
        if kind == "COLUMN_REF":
            name = ".".join(node["column_names"])
            if name.lower() not in spelled:
                raise ConfigError(f"{field}: no column {name!r}; there are {', '.join(schema.names)}")
            named[spelled[name.lower()]] = None
    return tuple(named)


def _require_pure(function: str, arguments: int, field: str) -> None:
    if function.lower() not in _pure_functions() | _MACROS:
        raise ConfigError(
            f"{field}: {function!r} is no function that depends on its arguments alone; leave it out"
        )
    if function.lower() == "age" and arguments == 1:
        raise ConfigError(
            f"{field}: 'age' of one time is its distance from today, which differs when rows are read again; "
            "write age(one, other)"
        )


@cache
def _branches(text: str) -> bool:
    """Return whether DuckDB may evaluate a part of an expression for only some rows."""
    return any(
        node["type"] in _BRANCHES or node.get("function_name") in _MACROS
        for node in _parsed(str(duckdb.SQLExpression(text)))
    )


def _parsed(expression: str) -> list[dict[str, Any]]:
    """Return every part of an expression.

    Raises:
        RecursionError: the expression nests more than `_DEEPEST` levels deep.
    """
    return list(_nodes(_serialized(expression), 0))


def _serialized(expression: str) -> dict[str, Any]:
    """Return the statement that selects an expression, as DuckDB's parser sees it."""
    parsed = _connection().execute("SELECT json_serialize_sql(?)", [f"{_SELECT}{expression}"]).fetchone()
    found: dict[str, Any] = json.loads(parsed[0] if parsed else "{}")
    return found


def _nodes(tree: Any, depth: int) -> Iterator[dict[str, Any]]:
    """Yield every expression of a serialized statement; `depth` expressions are around `tree`."""
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
    return frozenset(name for (name,) in found.fetchall()) - _IMPURE


def _quoting(text: str, columns: Collection[str]) -> str:
    """Return advice to quote a column of the text that is a word of SQL, such as `at`; "" if none is."""
    kept = _connection().execute(
        "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
    )
    words = {word.lower() for word in re.findall(r'(?<!")\b\w+\b(?!")', text)}
    keywords = words & {keyword for (keyword,) in kept.fetchall()}
    found = next((column for column in columns if column.lower() in keywords), None)
    return "" if found is None else f', and column {found} as "{found}", since SQL has that word, too'


def _statement(text: str) -> bytes:
    """Return the statement whose parsed parts name their positions, in bytes of UTF-8."""
    return f"{_SELECT}{text}\n".encode()


def _too_deep(field: str) -> str:
    return (
        f"{field}: the expression nests more than {_DEEPEST} levels deep; set parentheses so that it nests "
        "less, or split it"
    )


def _first_line(error: duckdb.Error) -> str:
    return str(error).splitlines()[0]
