"""The DuckDB database of one verification, and helpers that put names and texts into SQL."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from string import Template
from types import TracebackType
from typing import Any, Self

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling
from sqlalchemy.engine.default import DefaultDialect

from endmark.types import ColumnType

MEMORY_LIMIT = "1500MB"
THREADS = 2

_quote = DefaultDialect().identifier_preparer.quote_identifier


def name(identifier: str) -> str:
    """Return an identifier, quoted for SQL."""
    return _quote(identifier)


def names(identifiers: Sequence[str]) -> str:
    """Return identifiers, quoted and separated by commas."""
    return ", ".join(map(name, identifiers))


def text(value: str) -> str:
    """Return an SQL expression of a text. DuckDB has no literal with a character of the number 0."""
    parts = ("'" + part.replace("'", "''") + "'" for part in value.split("\0"))
    return f"({' || chr(0) || '.join(parts)})" if "\0" in value else next(parts)


def array(texts: Iterable[str]) -> str:
    """Return an SQL list of texts."""
    return f"[{', '.join(map(text, texts))}]::VARCHAR[]"


def fill(template: str, **fragments: str) -> str:
    """Return the template with each `$x` replaced by the SQL fragment `x`."""
    return Template(template).substitute(fragments)


def _exact_sum(values: list[float] | None) -> float | None:
    """The double nearest to the exact sum; `None` for no values, and if the sum is no finite double."""
    if not values or not all(map(math.isfinite, values)):
        return None
    try:
        return math.fsum(values)
    except OverflowError:
        pass  # a partial sum may be beyond all doubles although the sum is not
    try:
        return float(sum(map(Fraction, values)))
    except OverflowError:
        return None


class Session:
    """A DuckDB database in memory. It spills to a temporary directory, which is removed when it is closed."""

    def __init__(self) -> None:
        self._spill = tempfile.TemporaryDirectory(prefix="endmark-verify-")
        self._duckdb = duckdb.connect(
            config={
                "threads": THREADS,
                "memory_limit": MEMORY_LIMIT,
                "temp_directory": str(Path(self._spill.name)),
                "preserve_insertion_order": False,
                "autoinstall_known_extensions": False,
            }
        )
        self._duckdb.execute("SET TimeZone = 'UTC'")
        # The progress bar would be printed into the JSON of a report.
        self._duckdb.execute("SET enable_progress_bar = false")
        self._duckdb.create_function(
            "exact_sum", _exact_sum, ["DOUBLE[]"], "DOUBLE", null_handling=FunctionNullHandling.SPECIAL
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._duckdb.close()
        self._spill.cleanup()

    def run(self, template: str, values: Sequence[Any] = (), **fragments: str) -> list[dict[str, Any]]:
        """Run one statement and return its rows, each a dict by column.

        Args:
            template: SQL with `$x` for the fragment `x`, and `?` for a value.
            values: a value for each `?`, in their order.
            fragments: SQL texts to put into the template. `name` and `text` quote names and texts for them.

        Raises:
            duckdb.Error: DuckDB refuses the statement, or fails on a row.
        """
        self._duckdb.execute(fill(template, **fragments), list(values))
        # Through Arrow, since DuckDB's own conversion of timestamps with a zone needs pytz.
        rows: list[dict[str, Any]] = self._duckdb.to_arrow_table().to_pylist()
        return rows

    def batches(self, template: str, rows: int, **fragments: str) -> pa.RecordBatchReader:
        """Return a reader of the rows of one statement. They must be read before another statement is run.

        Args:
            template: SQL with `$x` for the fragment `x`.
            rows: the most rows of one batch of the reader.
            fragments: SQL texts to put into the template.
        """
        return self._duckdb.execute(fill(template, **fragments)).to_arrow_reader(rows)

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        return int(self.run("SELECT count(*) AS n FROM $table", table=name(table))[0]["n"])

    def create(self, table: str, columns: Mapping[str, ColumnType]) -> None:
        """Make an empty table."""
        defined = ", ".join(f"{name(column)} {kind.duckdb}" for column, kind in columns.items())
        self.run("CREATE TABLE $table ($defined)", table=name(table), defined=defined)

    def run_on(self, arriving: Any, template: str, values: Sequence[Any] = (), **fragments: str) -> None:
        """Run one statement on data that is not in the session.

        Args:
            arriving: an Arrow batch, table or dataset; it is the table `arriving` of the statement.
            template: SQL with `$x` for the fragment `x`, and `?` for a value.
            values: a value for each `?`, in their order.
            fragments: SQL texts to put into the template.
        """
        self._duckdb.register("arriving", arriving)
        try:
            self.run(template, values, **fragments)
        finally:
            self._duckdb.unregister("arriving")
