"""The ops database, in which a job describes itself to the sidecar.

The driver of a job writes its runs, batches and turns. The sidecar and the command line read them. All times
are by the database's clock, so ages are right even if the clocks of job and sidecar differ.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError

from endmark.control.ops_database import tables
from endmark.control.ops_database.access import (
    file_of,
    full_disk,
    identity,
    is_full,
    make_private,
    patience,
    use_write_ahead_log,
)
from endmark.control.ops_database.answers import Answers
from endmark.control.ops_database.batches import Batches
from endmark.control.ops_database.clock import clock
from endmark.control.ops_database.pipelines import Pipelines
from endmark.control.ops_database.runs import Runs
from endmark.control.ops_database.turns import Turns
from endmark.databases import database_url, require_files, shown_url
from endmark.errors import ConfigError, UnreachableError
from endmark.relation.outage import in_words

if TYPE_CHECKING:
    from collections.abc import Iterator

# A file is wrong for good with these errors of SQLite; with others, such as a lock, a later try may succeed.
_WRONG_FILE = "SQLITE_CANTOPEN", "SQLITE_NOTADB", "SQLITE_READONLY", "SQLITE_PERM"


class OpsDatabase:
    """The ops database at an SQLAlchemy URL. Its tables are created when they are missing.

    `pipelines`, `runs`, `batches`, `turns` and `answers` read and write the tables of their names.

    Raises:
        ConfigError: the text is not a URL of a database, or names a file that cannot be used.
        UnreachableError: the server does not answer, or refuses to create the tables.
    """

    def __init__(self, url: str) -> None:
        checked = database_url(url, "the ops URL")
        require_files(checked, "the ops URL")
        self.engine = sa.create_engine(checked, pool_pre_ping=True, connect_args=patience(checked))
        self._file = file_of(self.engine)
        if self.engine.dialect.name == "sqlite":
            make_private(self._file)
            event.listen(self.engine, "connect", use_write_ahead_log)
        try:
            tables.make(self.engine)
        except (DBAPIError, OSError) as error:  # pg8000 leaves a timeout as it is
            self.close()
            if is_full(error):
                raise UnreachableError(full_disk(shown_url(checked), self._file)) from error
            cause = error.orig if isinstance(error, DBAPIError) else error
            problem = f"cannot use the ops database {shown_url(checked)}: {in_words(error)}"
            if getattr(cause, "sqlite_errorname", "").startswith(_WRONG_FILE):
                raise ConfigError(f"{problem}; name a file that this user can write by --ops-url") from error
            raise UnreachableError(f"{problem}; start it, or correct --ops-url") from error
        self._made = None if self._file is None else identity(self._file)
        self.pipelines = Pipelines(self.engine)
        self.runs = Runs(self.engine)
        self.batches = Batches(self.engine)
        self.turns = Turns(self.engine)
        self.answers = Answers(self.engine)

    def close(self) -> None:
        self.engine.dispose()

    @property
    def shown_url(self) -> str:
        """The URL for errors and logs, without secrets."""
        return shown_url(self.engine.url)

    def is_replaced(self) -> bool:
        """Return whether the path of a SQLite database names another file by now, or none.

        SQLite goes on with the deleted file, so a sidecar would show the jobs of before for ever.
        """
        return self._file is not None and identity(self._file) != self._made

    def forget(self, pipeline: str) -> bool:
        """Remove all that is stored of a pipeline; return whether there was anything.

        Raises:
            TakenError: a job of the pipeline lives.
        """
        self.runs.require_stopped(pipeline)
        with self.engine.begin() as connection:
            removed = [
                connection.execute(table.delete().where(table.c.pipeline == pipeline)).rowcount
                for table in tables.META.sorted_tables
            ]
        return any(removed)

    def now(self) -> float:
        """Return the time by the database's clock, in Unix seconds."""
        with self.engine.connect() as connection:
            return float(connection.execute(sa.select(clock())).scalar_one())


@contextmanager
def opened(url: str) -> Iterator[OpsDatabase]:
    """Open an ops database for a command, and close it in the end.

    Raises:
        ConfigError: the text is not a URL of a database, or names a file that cannot be used.
        UnreachableError: the server does not answer, or refuses a statement.
    """
    with closing(OpsDatabase(url)) as ops:
        try:
            yield ops
        except (DBAPIError, TimeoutError) as error:  # pg8000 leaves a timeout as it is
            raise UnreachableError(
                f"the ops database {ops.shown_url} refuses a statement: {in_words(error)}; repeat the "
                "command, or mend the database"
            ) from error


def offsets_read(url: str, pipeline: str) -> dict[str, dict[int, int]]:
    """Return the first offset that the pipeline's job has not read, by topic and partition.

    Raises:
        ConfigError: `url` is empty, or its ops database has no batch of the pipeline.
    """
    if not url:
        raise ConfigError("nobody says where the ops database is; give --ops-url or set ENDMARK_OPS_URL")
    with opened(url) as ops:
        batch = ops.batches.latest(pipeline)
    if batch is None:
        raise ConfigError(
            f"the ops database has no batch of {pipeline}; name the one that its job was given by --ops-url"
        )
    return {topic: {int(at): end for at, end in ends.items()} for topic, ends in batch.offsets.items()}
