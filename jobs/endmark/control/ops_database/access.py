"""How programs reach the ops database: patience with a server, and a file of SQLite that is our own alone."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from tenacity import (
    Retrying,
    retry_if_exception,
    retry_if_exception_type,
    stop_after_attempt,
    stop_after_delay,
    wait_random,
    wait_random_exponential,
)

from endmark.relation.outage import passes

_ANSWER_SECONDS = 20


def make_private(file: str | None) -> None:
    """Create an SQLite file that only our own user may read. SQLite's files beside it get the same mode."""
    if file and file != ":memory:":
        with suppress(OSError):  # the connection will fail with a better message
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def file_of(engine: sa.Engine) -> str | None:
    """Return the file of an SQLite database; `None` for a server."""
    return engine.url.database if engine.dialect.name == "sqlite" else None


def identity(file: str) -> tuple[int, int] | None:
    """Return what tells a file from another one at its path; `None` if there is none."""
    try:
        found = Path(file).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def patience(url: sa.URL) -> dict[str, Any]:
    """Return arguments that make a database driver give up on a server that does not answer.

    Without them, a server that hangs would block the signs of life and the batches of a job for ever.
    """
    names = {"pymysql": ("connect_timeout", "read_timeout", "write_timeout"), "pg8000": ("timeout",)}
    # SQLite waits only for the lock of its file, and `busy_timeout` limits that.
    return dict.fromkeys(names.get(url.get_driver_name(), ()), _ANSWER_SECONDS)


def is_full(error: DBAPIError | OSError) -> bool:
    """Return whether SQLite found no room on its disk."""
    cause = error.orig if isinstance(error, DBAPIError) else None
    return bool(getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL)


def full_disk(named: str, file: str | None) -> str:
    """Return the error of a database whose `file` has no room to grow. `named` is its URL without secrets."""
    return (
        f"the ops database {named}: {file} and {file}-wal cannot grow, since their disk is full; make room "
        "on that disk, and start the job again"
    )


def use_write_ahead_log(connection: Any, _record: Any) -> None:
    """Let a new connection to SQLite write ahead; SQLAlchemy calls this."""
    # WAL lets the sidecar read while the job writes. NORMAL may lose the last batches only when power fails,
    # and repeated batches write them again.
    connection.execute("PRAGMA busy_timeout=5000")
    # SQLite fails at once if two connections that open a new database would wait for each other.
    for attempt in _again():
        with attempt:
            connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


def attempts() -> Retrying:
    """Retry when jobs insert the same missing row at once: one job inserts it, the others fail once."""
    return Retrying(retry=retry_if_exception_type(DBAPIError), stop=stop_after_attempt(5), reraise=True)


def while_away(seconds: float) -> Retrying:
    """Retry after errors that pass by themselves, for some seconds."""
    return Retrying(
        retry=retry_if_exception(lambda error: isinstance(error, (DBAPIError, OSError)) and passes(error)),
        stop=stop_after_delay(seconds),
        wait=wait_random_exponential(multiplier=0.05, max=1.0),
        reraise=True,
    )


def _again() -> Retrying:
    return Retrying(
        retry=retry_if_exception_type(sqlite3.OperationalError),
        stop=stop_after_delay(5.0),
        wait=wait_random(0.0, 0.05),
        reraise=True,
    )
