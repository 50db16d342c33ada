"""Outages of a database: which errors pass by themselves, and how long a reader waits for the end of one."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, TypeVar

import sqlalchemy as sa

from endmark.errors import ConfigError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable

    T = TypeVar("T")

_FIRST_PAUSE = 0.1  # seconds
_LONGEST_PAUSE = 2.0
# A statement may take this part of the deadline: a fifth, so that the deadline is met.
_TRIES = 5
# No statement may take longer, however long the deadline is. PyMySQL refuses a timeout of more than a year.
_LONGEST_STATEMENT = 24 * 3600

_MYSQL = frozenset(
    [
        *(0, 2002, 2003, 2006, 2013, 2014, 2027, 2055),  # the connection
        *(1040, 1129, 1203, 1226),  # too many connections, or a limit of the user's
        *(1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 4031),  # the server goes or hangs up
        *(1205, 1213, 1412),  # a lock, a deadlock, a table that was altered meanwhile
        *(1317, 1969, 3024),  # interrupted, or over the statement's time
        *(1021, 1037, 1038, 1041),  # disk or memory is short
    ]
)
# The first letters of SQLSTATE codes, in this order: the connection, resources, the server stops or starts
# (three codes), a statement's time, transactions that collide, a lock, and errors of the operating system.
_POSTGRESQL = ("08", "53", "57P01", "57P02", "57P03", "57014", "40", "55P03", "58")
# SQLite's codes for busy, locked, out of memory, interrupted, input or output, full, cannot open.
_SQLITE = frozenset([5, 6, 7, 9, 10, 13, 14])


class RelationUnreachableError(UnreachableError):
    """The database did not answer within the deadline. The text has its last error."""


def warn(text: str) -> None:
    """Write a warning to the log of a task, which is its standard error."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


class Patience:
    """Repeats reads that the database did not answer, until a batch has lost `seconds` with it.

    Args:
        name: the name of the relation in messages.
        seconds: the time that one batch may lose before a read is given up.
        say: called with a message when a batch begins to wait; `None` keeps silent.
    """

    def __init__(self, name: str, seconds: float, say: Callable[[str], None] | None = None) -> None:
        self._name = name
        self._seconds = seconds
        self._say = say
        self._lost = 0.0

    @property
    def answer_seconds(self) -> int:
        """The seconds that one statement may take."""
        return max(1, min(round(self._seconds / _TRIES), _LONGEST_STATEMENT))

    def renew(self) -> None:
        """Begin a batch, which has lost no time yet."""
        self._lost = 0.0

    def retried(self, read: Callable[[], T]) -> T:
        """Return what `read` returns, calling it again after each error that passes by itself.

        Raises:
            RelationUnreachableError: the database did not answer before the batch had lost all its seconds.
            ConfigError: the database refuses the read, and would refuse it again.
        """
        pause = _FIRST_PAUSE
        while True:
            started = time.monotonic()
            try:
                return read()
            except (sa.exc.DBAPIError, OSError) as error:
                cause = in_words(error)
                if not passes(error):
                    raise ConfigError(f"{self._name}: the database refuses a read: {cause}") from error
                if self._say is not None and not self._lost:
                    self._say(f"{self._name}: waiting {self._seconds:g} s for the database: {cause}")
                self._lost += time.monotonic() - started
                if self._lost >= self._seconds:
                    waited = f"the database did not answer for {self._lost:.0f} s of this batch"
                    raise RelationUnreachableError(f"{self._name}: {waited}: {cause}") from error
            rest = min(pause, self._seconds - self._lost)
            time.sleep(rest)
            self._lost += rest
            pause = min(2 * pause, _LONGEST_PAUSE)


def passes(error: sa.exc.DBAPIError | OSError) -> bool:
    """Return whether an error passes by itself, so that the same statement may be answered later."""
    if isinstance(error, OSError) or error.connection_invalidated or isinstance(error, sa.exc.InterfaceError):
        return True
    cause = error.orig
    if (sqlite := getattr(cause, "sqlite_errorcode", None)) is not None:
        return sqlite & 0xFF in _SQLITE
    code = cause.args[0] if cause and cause.args else None
    if isinstance(code, dict):
        return str(code.get("C")).startswith(_POSTGRESQL)
    return code in _MYSQL


def in_words(error: sa.exc.DBAPIError | OSError) -> str:
    """Return an error in the words of the database."""
    if isinstance(error, OSError):
        return str(error)
    message = error.orig.args[0] if error.orig and error.orig.args else None
    # pg8000 gives all fields of the server's message.
    return str(message["M"]) if isinstance(message, dict) and "M" in message else str(error.orig)
