"""The sidecar's access to the ops database. It opens the database at first use and again after an error."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from endmark.control.dead_letters.replays import Replay, replay, replayed
from endmark.control.dead_letters.search import Coordinates, DeadLetter
from endmark.control.description import Description, GapDescription
from endmark.control.ops_database.batches import FinishedBatch
from endmark.control.ops_database.database import OpsDatabase
from endmark.control.ops_database.forecasts import Stored, newest_forecasts
from endmark.control.questions.ask import ask
from endmark.databases import database_url, shown_url
from endmark.errors import ConfigError, MissingPartError
from endmark.metrics import Samples, sample
from endmark.wire.control import Question
from endmark_ops.readers.lag import Ends, lag

if TYPE_CHECKING:
    from endmark.kafka.cluster import ClusterOrAddress

T = TypeVar("T")

RECENT_SECONDS = 300.0  # figures of the last minutes are of this time

_LOG = logging.getLogger(__name__)
_FOR_CLIENTS = "cannot read the ops database; the sidecar's log has the cause"


class UnreadableError(Exception):
    """The ops database cannot be read now.

    The text names the database and the cause. It is only for logs and consoles.
    """

    def for_clients(self) -> str:
        """Write the cause to the log, and return a text for clients that shows nothing of the database."""
        _LOG.warning("%s", self)
        return _FOR_CLIENTS


@dataclass(frozen=True)
class Run:
    """One run of the job, from its start to its end.

    Args:
        run_id: the id of the run.
        state: `starting`, `running`, `done`, `stopped` or `failed`.
        started_at: Unix seconds.
        stopped_at: Unix seconds; `None`: no end of the run is stored.
        error: the cause of a failure; `None`: there was none.
    """

    run_id: str
    state: str
    started_at: float
    stopped_at: float | None
    error: str | None


@dataclass(frozen=True)
class Snapshot:
    """The pipeline's newest run and batch at one time.

    Times are Unix seconds by the ops database's clock.

    Args:
        run: the newest run; `None`: no job has started.
        batch: the newest batch; `None`: none was committed.
        now: the time at which the snapshot was taken.
        alive_at: the time of the last sign of life of the run's driver; `None`: not known.
        lag: records that no batch has read, by topic; `None`: not known.
        ends: records that a stream's topic has ever had, by topic; `None`: not known.
        streams: the names of the streams, by the pipeline's latest job; empty before a job has started.
        every: the least seconds from the start of a batch to that of the next one, by this job's file.
        gaps: the offsets that the job has skipped, since Kafka had dropped their records.
        earlier: the totals of `RECENT_SECONDS` ago; empty if there was no batch yet.
    """

    run: Run | None
    batch: FinishedBatch | None
    now: float
    alive_at: float | None = None
    lag: Mapping[str, int] | None = None
    ends: Mapping[str, int] | None = None
    streams: Collection[str] = ()
    every: float = 0.0
    gaps: Sequence[GapDescription] = ()
    earlier: Samples = field(default_factory=dict)

    @property
    def totals(self) -> Samples:
        """The totals of the newest batch, and the number of skipped offsets of each topic that has some."""
        skipped: Samples = {}
        for gap in self.gaps:
            key = sample("gap_offsets_total", topic=gap.topic)
            skipped[key] = skipped.get(key, 0.0) + gap.end - gap.first
        return ({} if self.batch is None else self.batch.totals) | skipped

    @property
    def sign_of_life_age(self) -> float | None:
        """Seconds since the run's driver gave a sign of life, never negative; `None`: not known."""
        return None if self.alive_at is None else max(0.0, self.now - self.alive_at)

    @property
    def batch_age(self) -> float | None:
        """Seconds since the last batch was committed, never negative; `None`: there is no batch."""
        return None if self.batch is None else max(0.0, self.now - self.batch.committed_at)


class OpsReader:
    """The ops database, opened at first use and again after an error.

    Its methods raise `UnreadableError` when the database cannot be read. A server that is away takes 20 s to
    open. One caller at a time tries that. The others wait for the first attempt alone, and share its end.

    Args:
        url: SQLAlchemy URL of the ops database.

    Raises:
        ConfigError: the text is no URL of a database that is known.
        MissingPartError: the URL's driver is not installed.
    """

    def __init__(self, url: str) -> None:
        self._url = database_url(url, "the ops URL")
        self._lock = Lock()  # held while the database is opened
        self._opened: OpsDatabase | None = None
        self._failure: str | None = None  # of the last attempt to open it

    def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def pipelines(self) -> Sequence[str]:
        """Return the names of all pipelines that a job has started or described, sorted."""
        return self.read(lambda database: database.pipelines.names())

    def read(self, query: Callable[[OpsDatabase], T]) -> T:
        try:
            return query(self._database())
        # The JSON of a damaged row raises ValueError. A timeout of pg8000 is an OSError.
        except (SQLAlchemyError, OSError, ValueError) as error:
            self.close()
            raise UnreadableError(self._explain(error)) from error

    def _database(self) -> OpsDatabase:
        known = self._failure
        if not self._lock.acquire(blocking=known is None):
            raise UnreadableError(str(known))
        try:
            if known is None and self._failure is not None:  # the attempt that this caller has waited for
                raise UnreadableError(self._failure)
            if (opened := self._opened) is not None and opened.is_replaced():
                opened.close()
                opened = None
            if opened is None:
                opened = self._open()
            self._opened = opened
            return opened
        finally:
            self._lock.release()

    def _open(self) -> OpsDatabase:
        try:
            opened = OpsDatabase(self._url.render_as_string(hide_password=False))
        except (ConfigError, MissingPartError) as error:
            self._failure = self._explain(error.__cause__ or error)
            raise UnreadableError(self._failure) from error
        self._failure = None
        return opened

    def _explain(self, error: BaseException) -> str:
        cause = error.orig if isinstance(error, DBAPIError) else error
        return (
            f"cannot read the ops database {shown_url(self._url)}: {cause}; "
            "check that the job writes to the same URL and that the sidecar may read it"
        )


class OpsSource:
    """A reader of one pipeline's part of the ops database. It also asks Kafka for the lag.

    Its methods raise `UnreadableError` when the database cannot be read.

    Args:
        reader: reads the ops database.
        pipeline: the pipeline's name.
        ends: returns the ends of topics, or `None` if they are not known.
    """

    def __init__(
        self,
        reader: OpsReader,
        pipeline: str,
        ends: Callable[[Collection[str]], Ends | None] = lambda _: None,
    ) -> None:
        self.pipeline = pipeline
        self._read = reader.read
        self._ends = ends

    def snapshot(self) -> Snapshot:
        def read(database: OpsDatabase) -> tuple[Any, FinishedBatch | None, Any, float, Samples]:
            now = database.now()
            return (
                database.runs.latest(self.pipeline),
                database.batches.latest(self.pipeline),
                database.pipelines.description(self.pipeline),
                now,
                database.batches.totals_at(self.pipeline, now - RECENT_SECONDS),
            )

        row, batch, description, now, earlier = self._read(read)
        run = Run(**{name: row[name] for name in Run.__dataclass_fields__}) if row else None
        alive_at = row["alive_at"] if row else None
        snapshot = Snapshot(run, batch, now, alive_at, earlier=earlier)
        if (found := _described(description)) is None:
            return snapshot
        every = found.fields.get("batch", {}).get("every", 0.0)
        snapshot = replace(snapshot, streams=found.topics.keys(), every=every, gaps=found.gaps)
        topics = found.topics.values()
        ends = self._ends({*topics, found.control_topic})
        if ends is None:
            return snapshot
        waiting = lag(ends, {} if batch is None else batch.offsets)
        had = {topic: sum(end for _, end in ends[topic].values()) for topic in topics}
        return replace(snapshot, lag=waiting, ends=had)

    def batches(self, after: int, limit: int) -> Sequence[FinishedBatch]:
        """Return the newest `limit` batches with a greater id than `after`, oldest first."""
        return self._read(lambda database: database.batches.after(self.pipeline, after, limit))

    def turns(self) -> Sequence[dict[str, Any]]:
        """Return every turn of a knob, taken or refused, oldest first."""
        return self._read(lambda database: database.turns.of(self.pipeline))

    def description(self) -> Description | None:
        """Return the description of the pipeline by its latest job; `None` if no job has started."""
        found = self._read(lambda database: database.pipelines.description(self.pipeline))
        return _described(found)

    def checkpoint_id(self) -> str | None:
        """Return the id of the checkpoint of the pipeline's latest run; `None` if no job has started."""
        found = self._read(lambda database: database.runs.latest(self.pipeline))
        return None if found is None else found["app_id"]

    def forecasts(self) -> Stored:
        """Return the newest forecasts of `endmark plan`."""
        return self._read(lambda database: newest_forecasts(database, self.pipeline))

    def replays(self, letters: Sequence[DeadLetter]) -> Mapping[Coordinates, Replay]:
        """Return the replays of these dead letters by coordinates; those never replayed are left out."""
        return self._read(lambda database: replayed(database, self.pipeline, letters))

    def replay(
        self,
        bootstrap: ClusterOrAddress,
        letter: DeadLetter,
        value: bytes | None,
        by: str,
        whole: Collection[str],
    ) -> Replay:
        """Send a record to the partition of a dead letter, and store this as a replay.

        Args:
            bootstrap: the Kafka cluster, or the addresses of its brokers.
            letter: the dead letter.
            value: the value that is sent; `None` is a tombstone.
            by: the name of the person who sends it, for audits.
            whole: the topics whose streams take columns from keys, headers or timestamps.

        Raises:
            ReplayedError: the dead letter was replayed before.
            GoneError: Kafka does not hold the record, and the stream needs more than its value.
            MissingPartError: the broker does not answer; the record may be in Kafka nevertheless.
        """
        return self._read(
            lambda database: replay(database, bootstrap, self.pipeline, letter, value, by, whole)
        )

    def ask(
        self, bootstrap: ClusterOrAddress, topic: str, question: Question, patience: float
    ) -> dict[str, Any]:
        """Ask the running job, and return its answer.

        Args:
            bootstrap: the Kafka cluster, or the addresses of its brokers.
            topic: the control topic.
            question: the question.
            patience: the most seconds to wait.

        Raises:
            EndmarkError: no job runs, or it has not answered in time.
            MissingPartError: the broker does not answer.
        """
        return self._read(lambda database: ask(database, bootstrap, self.pipeline, topic, question, patience))


def _described(stored: dict[str, Any] | None) -> Description | None:
    """Return a stored description; `None` if there is none, or a job of another version has stored it."""
    try:
        return None if stored is None else Description.model_validate(stored)
    except ValidationError:
        return None
