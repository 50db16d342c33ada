"""What the sidecar reads: the ops database, opened when it is first asked for and again after an error."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from endmark.errors import ConfigError
from endmark.ops.database import Batch, OpsDatabase
from endmark.ops.dead_letters import Coordinates, DeadLetter
from endmark.ops.description import Description
from endmark.ops.forecasts import LookupForecast, told
from endmark.ops.replays import Replay, replay, replayed

T = TypeVar("T")


class UnreadableError(Exception):
    """The ops database cannot be read now; the text is fit for an HTTP client and holds no password."""


@dataclass(frozen=True)
class Run:
    """One start of the job. Times are Unix seconds; `state` is starting, running, stopped or failed."""

    run_id: str
    state: str
    started_at: float
    stopped_at: float | None
    error: str | None


@dataclass(frozen=True)
class Snapshot:
    """The pipeline's newest run and batch as of `now`, in Unix seconds."""

    run: Run | None
    batch: Batch | None
    now: float

    @property
    def batch_age(self) -> float | None:
        """Seconds since the last batch was committed; never negative."""
        return None if self.batch is None else max(0.0, self.now - self.batch.committed_at)


class OpsSource:
    """Reads one pipeline's part of the ops database.

    Raises:
        ConfigError: the URL is none that SQLAlchemy knows, or its driver is not installed.
    """

    def __init__(self, url: str, pipeline: str) -> None:
        self.pipeline = pipeline
        self._url = _checked(url)
        self._lock = threading.Lock()
        self._opened: OpsDatabase | None = None

    def close(self) -> None:
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def snapshot(self) -> Snapshot:
        return self._read(
            lambda database: Snapshot(
                run=_latest_run(database, self.pipeline),
                batch=database.latest_batch(self.pipeline),
                now=time.time(),
            )
        )

    def batches(self, after: int, limit: int) -> Sequence[Batch]:
        """The newest `limit` batches with an id above `after`, oldest first."""
        return self._read(lambda database: database.batches_after(self.pipeline, after, limit))

    def turns(self) -> Sequence[dict[str, Any]]:
        """Every knob that was set or refused, oldest first."""
        return self._read(lambda database: database.turns(self.pipeline))

    def description(self) -> Description | None:
        """What the job that started last says of the pipeline; `None` if no job has."""
        found = self._read(lambda database: database.description(self.pipeline))
        return None if found is None else Description.model_validate(found)

    def forecasts(self) -> Sequence[LookupForecast]:
        """What was predicted of each lookup."""
        return self._read(lambda database: told(database, self.pipeline))

    def replays(self, letters: Sequence[DeadLetter]) -> Mapping[Coordinates, Replay]:
        """Of these dead letters, those that were replayed."""
        return self._read(lambda database: replayed(database, self.pipeline, letters))

    def replay(self, bootstrap: str, letter: DeadLetter, value: bytes | None, by: str) -> Replay:
        """Send a dead letter once more.

        Raises:
            ReplayedError: that was done before.
            MissingPartError: the broker does not answer.
        """
        return self._read(lambda database: replay(database, bootstrap, self.pipeline, letter, value, by))

    def _read(self, query: Callable[[OpsDatabase], T]) -> T:
        try:
            return query(self._database())
        # ValueError: a row whose JSON is damaged.
        except (SQLAlchemyError, ValueError) as error:
            self.close()
            raise UnreadableError(self._explain(error)) from error

    def _database(self) -> OpsDatabase:
        with self._lock:
            if self._opened is None:
                self._opened = OpsDatabase(self._url.render_as_string(hide_password=False))
            return self._opened

    def _explain(self, error: Exception) -> str:
        cause = error.orig if isinstance(error, DBAPIError) else error
        where = self._url.render_as_string(hide_password=True)
        return (
            f"cannot read the ops database {where}: {cause}; "
            "check that the job writes to the same URL and that the sidecar may read it"
        )


def _checked(url: str) -> sa.URL:
    # The text of the URL stays out of the message, since a malformed one cannot be told from its password.
    try:
        parsed = sa.make_url(url)
    except ArgumentError as error:
        raise ConfigError(
            "the ops URL is no SQLAlchemy URL; write one such as sqlite:////var/lib/endmark/ops.db"
        ) from error
    try:
        parsed.get_dialect().import_dbapi()
    except (ArgumentError, ImportError) as error:
        raise ConfigError(f"the ops URL needs the driver of {parsed.drivername!r}: {error}") from error
    return parsed


def _latest_run(database: OpsDatabase, pipeline: str) -> Run | None:
    row = database.latest_run(pipeline)
    return Run(**{name: row[name] for name in Run.__dataclass_fields__}) if row else None
