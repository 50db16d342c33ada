"""A part of the ops database, and the patience of a job with its server."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from endmark.control.ops_database.access import file_of, full_disk, is_full, while_away
from endmark.databases import shown_url
from endmark.errors import UnreachableError
from endmark.relation.outage import in_words, passes

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound="Part")

AWAY_SECONDS = 30.0  # a job waits for the ops database as long as for a broker


class Part:
    """Reads and writes one table of the ops database.

    Args:
        engine: makes connections to the database.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    @property
    def shown_url(self) -> str:
        """The URL of the database for errors, without secrets."""
        return shown_url(self._engine.url)

    @property
    def file(self) -> str | None:
        """The file of an SQLite database; `None` for a server."""
        return file_of(self._engine)


def patiently(method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Let a method try again after errors that pass by themselves, for `AWAY_SECONDS`.

    A restart of the server is such an error. So is a deadlock, since the ranges that MySQL locks for one
    pipeline reach to the rows of the next one. These methods are those of a running job, and each may be
    repeated. The sidecar does not wait, since its clients ask again.

    Raises:
        UnreachableError: the server has not answered in this time.
    """

    @wraps(method)
    def tried(self: T, /, *given: P.args, **named: P.kwargs) -> R:
        try:
            return while_away(AWAY_SECONDS)(method, self, *given, **named)
        except (DBAPIError, OSError) as error:
            if not passes(error):
                raise
            if is_full(error):
                raise UnreachableError(full_disk(self.shown_url, self.file)) from error
            raise UnreachableError(
                f"the ops database {self.shown_url} did not answer for {AWAY_SECONDS:.0f} s: "
                f"{in_words(error)}; when it is back, start the job again"
            ) from error

    return tried
