"""Connections to the databases that hold relations: few, with short timeouts, and in one time zone."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from endmark.databases import database_url, require_files
from endmark.errors import ConfigError, MissingPartError
from endmark.relation.backend import backend_of
from endmark.relation.text_rows import TextConnection, TextRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from endmark.relation.backend import Backend

# A Python worker holds two connections for each lookup at most: one reads while the other reads ahead. The
# pool has no limit, since a thread that waited for a connection would end in an error that no deadline of
# ours knows.
_NO_LIMIT = 0
# The modes of a server may pad texts with blanks or make nulls of empty texts, and its limit may cut an
# answer. Each of these would make keys that are not found. MySQL and MariaDB each skip the comment that is
# written for the other.
_SESSION = (
    "SET time_zone = '+00:00', sql_mode = '', sql_select_limit = 18446744073709551615"
    " /*!50708 , max_execution_time = {milliseconds} */"
    " /*M!100101 , max_statement_time = {seconds} */"
)


@cache
def engine(url: str, answer_seconds: int) -> sa.Engine:
    """Return the engine of this process for a URL. Its statements fail after `answer_seconds`.

    Raises:
        ConfigError: the text is no URL, its database or driver is not supported, or a file that it names
            cannot be read.
        MissingPartError: the URL's driver is not installed.
    """
    backend, parsed = backend_of(url), database_url(url, "the relation's URL")
    if backend == "sqlite":
        _require_file(parsed)
    require_files(parsed, "the relation's URL")
    found = sa.create_engine(
        parsed,
        connect_args=_connect_arguments(backend, answer_seconds),
        # Both styles take values in the order of their placeholders.
        paramstyle="qmark" if backend == "sqlite" else "format",
        # Each read is a statement of its own; a transaction around it would cost two round trips.
        isolation_level="AUTOCOMMIT",
        poolclass=sa.QueuePool,
        # A rollback would cost another round trip, and there is nothing to roll back.
        skip_autocommit_rollback=True,
        pool_reset_on_return=None,
        pool_size=_NO_LIMIT,
    )
    if backend == "postgresql" and found.driver != "pg8000":
        # Other drivers read without a deadline, so a server that hangs would hang the job.
        raise ConfigError(f"a relation in PostgreSQL is read by pg8000, but its URL names {found.driver!r}")
    if found.driver == "pymysql":
        sa.event.listen(found, "do_connect", _connect_as_text)
    return found


def _require_file(url: sa.URL) -> None:
    """Refuse a SQLite file that is missing, which SQLite would create."""
    file = url.database
    if file and not file.startswith((":", "file:")) and not Path(file).exists():
        raise ConfigError(f"the relation's file {file} does not exist; correct its URL, or create the table")


def _connect_as_text(_: Any, __: Any, arguments: Sequence[Any], names: Mapping[str, Any]) -> TextConnection:
    try:
        return TextConnection(*arguments, **names)
    except RuntimeError as error:
        # PyMySQL raises it without the `cryptography` package, which MySQL's logins need without TLS.
        raise MissingPartError(
            f"a relation's server cannot be logged in to: {error}; let it offer TLS, or install that package"
        ) from error


def _connect_arguments(backend: Backend, answer_seconds: int) -> dict[str, Any]:
    milliseconds = 1000 * answer_seconds
    if backend == "sqlite":
        return {"timeout": answer_seconds}
    if backend == "postgresql":
        session = {"TimeZone": "UTC", "statement_timeout": str(milliseconds)}
        return {"timeout": answer_seconds, "startup_params": session}
    return {
        "charset": "utf8mb4",
        "connect_timeout": answer_seconds,
        "read_timeout": answer_seconds,
        "write_timeout": answer_seconds,
        "init_command": _SESSION.format(seconds=answer_seconds, milliseconds=milliseconds),
    }


@contextmanager
def connected(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Lend a connection of the pool, and close it if an answer broke off in the middle."""
    with engine.connect() as connection:
        try:
            yield connection
        except OSError:
            # pg8000 leaves some of these connections open, and the next reader would get the rest.
            connection.invalidate()
            raise


def fetch(connection: sa.Connection, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Run a statement and return all rows as the driver's own tuples.

    Args:
        connection: an open connection.
        statement: SQL with the driver's own placeholders.
        values: the values of the placeholders, in order.
    """
    result = connection.exec_driver_sql(statement, tuple(values))
    rows: list[tuple[Any, ...]] = list(result.cursor.fetchall())
    result.close()
    return rows


def fetch_rows(
    connection: sa.Connection, statement: str, values: Sequence[Any]
) -> TextRows | list[tuple[Any, ...]]:
    """Run a statement and return all rows, as text if the driver is PyMySQL, else as the driver's own tuples.

    Args:
        connection: an open connection.
        statement: SQL with the driver's own placeholders.
        values: the values of the placeholders, in order.
    """
    driver = connection.connection.driver_connection
    if not isinstance(driver, TextConnection):
        return fetch(connection, statement, values)
    driver.as_text = True
    try:
        result = connection.exec_driver_sql(statement, tuple(values))
        rows: TextRows = result.cursor.fetchall()  # type: ignore[assignment]
        result.close()
    finally:
        driver.as_text = False
    return rows
