"""Connections to the databases that hold relations: few, short of patience, and in one time zone."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from endmark.errors import ConfigError, MissingPartError
from endmark.relation.text_rows import TextConnection, TextRows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# For each lookup one reads while the other reads ahead, and a Python worker never holds more of a database's
# connections. None waits for another's: that wait would end in an error that no deadline of ours knows.
_NO_LIMIT = 0
# Each of the two servers skips the comment that is written for the other.
_SESSION = (
    "SET time_zone = '+00:00' /*!50708 , max_execution_time = {milliseconds} */"
    " /*M!100101 , max_statement_time = {seconds} */"
)


@cache
def engine(url: str, answer_seconds: int) -> sa.Engine:
    """The engine of this process for a URL; a statement that takes longer than `answer_seconds` fails.

    Raises:
        ConfigError: the URL is none, or that of another database than MySQL, MariaDB or SQLite.
        MissingPartError: the URL's driver is not installed.
    """
    try:
        made = sa.make_url(url)
        arguments = _connect_arguments(made, answer_seconds)
        found = sa.create_engine(
            made,
            connect_args=arguments,
            # Values stand in the order of their places, in whichever of the drivers.
            paramstyle="qmark" if is_sqlite(url) else "format",
            # Each read is a statement of its own; a transaction around it would cost two round trips.
            isolation_level="AUTOCOMMIT",
            poolclass=sa.QueuePool,
            # Nor is there anything to roll back, which would cost one.
            skip_autocommit_rollback=True,
            pool_reset_on_return=None,
            pool_size=_NO_LIMIT,
        )
        if found.driver == "pymysql":
            sa.event.listen(found, "do_connect", _connect_as_text)
        return found
    except sa.exc.ArgumentError as error:
        raise ConfigError(f"the relation's URL is no database URL such as sqlite:///r.db: {error}") from None
    except ModuleNotFoundError as error:
        raise MissingPartError(f"the relation's URL needs a Python driver: {error}") from error


def _connect_as_text(_: Any, __: Any, places: Sequence[Any], names: Mapping[str, Any]) -> TextConnection:
    try:
        return TextConnection(*places, **names)
    except RuntimeError as error:
        # PyMySQL's word for a package that MySQL's logins take where no TLS hides the password.
        raise MissingPartError(
            f"a relation's server cannot be logged in to: {error}; let it offer TLS, or install that package"
        ) from error


def is_sqlite(url: str) -> bool:
    return url.startswith("sqlite")


def _connect_arguments(url: sa.URL, answer_seconds: int) -> dict[str, Any]:
    backend = url.get_backend_name()
    if backend == "sqlite":
        return {"timeout": answer_seconds}
    if backend not in ("mysql", "mariadb"):
        raise ConfigError(f"a relation lives in MySQL, MariaDB or SQLite, but its URL says {backend!r}")
    return {
        "charset": "utf8mb4",
        "connect_timeout": answer_seconds,
        "read_timeout": answer_seconds,
        "write_timeout": answer_seconds,
        "init_command": _SESSION.format(seconds=answer_seconds, milliseconds=1000 * answer_seconds),
    }


def fetch(connection: sa.Connection, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """All rows of a statement in the driver's own text, as the driver's own tuples."""
    result = connection.exec_driver_sql(statement, tuple(values))
    rows: list[tuple[Any, ...]] = list(result.cursor.fetchall())
    result.close()
    return rows


def fetch_rows(
    connection: sa.Connection, statement: str, values: Sequence[Any]
) -> TextRows | list[tuple[Any, ...]]:
    """As `fetch`, but as text where the driver lets us have it."""
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
