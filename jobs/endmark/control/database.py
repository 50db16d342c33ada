"""The ops database, in which a job describes itself to the sidecar.

The driver of a job writes its runs, batches and turns. The sidecar and the command line read them. All times
are by the database's clock, so ages are right even if the clocks of job and sidecar differ. The key of
`batches` is (pipeline, batch_id), so a repeated batch replaces its row and totals stay exact.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError

from endmark.control import tables
from endmark.control.clock import clock
from endmark.control.ops_access import (
    attempts,
    full_disk,
    identity,
    is_full,
    make_private,
    patience,
    use_write_ahead_log,
    while_away,
)
from endmark.control.tables import answers, batches, pipelines, runs, turns
from endmark.databases import database_url, require_files, shown_url
from endmark.errors import ConfigError, MissingPartError, UnreachableError
from endmark.metrics import Samples, accumulate
from endmark.relation.outage import in_words, passes

P = ParamSpec("P")
T = TypeVar("T")

# A driver counts as gone after this time without a sign of life. Signs come every 5 s. While 30 programs
# wanted two cores and a job read a full feed, 59 signs were 5.0 s apart in the median, and 8.0 s at most.
LOST_SECONDS = 30.0
AWAY_SECONDS = 30.0  # a job waits for the ops database as long as for a broker
# A file is wrong for good with these errors of SQLite; with others, such as a lock, a later try may succeed.
_WRONG_FILE = "SQLITE_CANTOPEN", "SQLITE_NOTADB", "SQLITE_READONLY", "SQLITE_PERM"
KEPT_RUNS = 1_000  # a run a minute made 525,600 rows a year, and each answer of the sidecar took 0.5 s
KEPT_TURNS = 1_000  # with 100,000, a list of knobs took 3.5 s; Kafka has the older ones
KEPT_ANSWERS = 1_000  # records of the control topic; whoever asks waits for some seconds
KEPT_BATCHES = 20_000  # about 5 hours at a batch a second; one of the auction took 12 kB of SQLite


@dataclass(frozen=True)
class FinishedBatch:
    """A batch that a job has finished.

    Args:
        pipeline: the pipeline's name.
        batch_id: the number of the batch.
        run_id: the run that finished it.
        committed_at: Unix seconds by the database's clock.
        samples: the figures of this batch, by the name of the metric.
        totals: counters since the first batch, and gauges of this batch.
        offsets: the first offsets that are not read yet, by topic and partition.
    """

    pipeline: str
    batch_id: int
    run_id: str
    committed_at: float
    samples: Samples
    totals: Samples
    offsets: dict[str, dict[str, int]]


class TakenError(MissingPartError):
    """A living job has the pipeline's name."""


def _patiently(
    method: Callable[Concatenate[OpsDatabase, P], T],
) -> Callable[Concatenate[OpsDatabase, P], T]:
    """Let a method try again after errors that pass by themselves, for `AWAY_SECONDS`.

    A restart of the server is such an error. So is a deadlock, since the ranges that MySQL locks for one
    pipeline reach to the rows of the next one. These methods are those of a running job, and each may be
    repeated. The sidecar does not wait, since its clients ask again.

    Raises:
        UnreachableError: the server has not answered in this time.
    """

    @wraps(method)
    def tried(self: OpsDatabase, /, *given: P.args, **named: P.kwargs) -> T:
        try:
            return while_away(AWAY_SECONDS)(method, self, *given, **named)
        except (DBAPIError, OSError) as error:
            if not passes(error):
                raise
            if is_full(error):
                raise UnreachableError(full_disk(self.shown_url, self._file)) from error
            raise UnreachableError(
                f"the ops database {self.shown_url} did not answer for {AWAY_SECONDS:.0f} s: "
                f"{in_words(error)}; when it is back, start the job again"
            ) from error

    return tried


class OpsDatabase:
    """Reads and writes the ops database at an SQLAlchemy URL; creates its tables when they are missing.

    Raises:
        ConfigError: the text is not a URL of a database, or names a file that cannot be used.
        UnreachableError: the server does not answer, or refuses to create the tables.
    """

    def __init__(self, url: str) -> None:
        checked = database_url(url, "the ops URL")
        require_files(checked, "the ops URL")
        self.engine = sa.create_engine(checked, pool_pre_ping=True, connect_args=patience(checked))
        if self.engine.dialect.name == "sqlite":
            make_private(checked.database)
            event.listen(self.engine, "connect", use_write_ahead_log)
        self._file = checked.database if self.engine.dialect.name == "sqlite" else None
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
        self.require_stopped(pipeline)
        with self.engine.begin() as connection:
            removed = [
                connection.execute(table.delete().where(table.c.pipeline == pipeline)).rowcount
                for table in tables.META.sorted_tables
            ]
        return any(removed)

    @_patiently
    def describe(self, pipeline: str, description: Mapping[str, Any]) -> None:
        """Store a job's description of its pipeline; it replaces an earlier job's."""
        with self.engine.begin() as connection:
            _put(connection, pipeline, {"description": dict(description)})

    def description(self, pipeline: str) -> dict[str, Any] | None:
        """Return the description of a pipeline; `None` if no job has stored one."""
        query = sa.select(pipelines.c.description).where(pipelines.c.pipeline == pipeline)
        with self.engine.connect() as connection:
            found: dict[str, Any] | None = connection.execute(query).scalar()
        return found

    def pipelines(self) -> Sequence[str]:
        """Return the names of all pipelines that a job has started or described, sorted."""
        query = sa.select(pipelines.c.pipeline).order_by(pipelines.c.pipeline)
        with self.engine.connect() as connection:
            return connection.execute(query).scalars().all()

    @_patiently
    def start_run(
        self, run_id: str, pipeline: str, app_id: str, checkpoint: str, *, locked: bool = True
    ) -> None:
        """Store a new run, unless a living job has the same pipeline name.

        The turns of a checkpoint whose pipeline had another name are copied. They hold on in its state.

        A run lives until it stores its end, or has given no sign of life for `LOST_SECONDS`. A run of a
        locked checkpoint does not count for the same checkpoint, since the lock admits one job at a time. So
        a job that was killed can start again at once.

        Args:
            run_id: a name that no other run has.
            pipeline: the pipeline's name.
            app_id: the id of the checkpoint; it stays the same when the checkpoint is moved.
            checkpoint: the directory of the checkpoint, for error messages.
            locked: whether the checkpoint has a lock, which an object store lacks.

        Raises:
            TakenError: a living job has the name.
        """
        for attempt in attempts():
            with attempt, self.engine.begin() as connection:
                _wait_for_others(connection, pipeline)
                # An earlier try may have stored the run before its answer was lost.
                connection.execute(runs.delete().where(runs.c.run_id == run_id))
                exempt = app_id if locked else None
                if (other := connection.execute(_living(pipeline, exempt)).first()) is not None:
                    raise TakenError(_taken(pipeline, other))
                _copy_turns(connection, app_id, pipeline)
                mine = runs.c.pipeline == pipeline
                now = connection.execute(sa.select(clock())).scalar_one()
                newest = connection.execute(sa.select(sa.func.max(runs.c.started_at)).where(mine)).scalar()
                connection.execute(
                    runs.insert().values(
                        run_id=run_id,
                        pipeline=pipeline,
                        state="starting",
                        # The latest run is the one that started last, also if the clock was put back.
                        started_at=max(now, (newest or 0.0) + 0.001),
                        alive_at=clock(),
                        app_id=app_id,
                        checkpoint=checkpoint,
                        host=socket.gethostname(),
                        process=os.getpid(),
                    )
                )
                oldest = sa.select(runs.c.started_at).where(mine).order_by(runs.c.started_at.desc())
                if (until := connection.execute(oldest.offset(KEPT_RUNS).limit(1)).scalar()) is not None:
                    connection.execute(runs.delete().where(mine, runs.c.started_at <= until))

    @_patiently
    def require_last(self, run_id: str) -> None:
        """Check that no later run has begun on the checkpoint of a run.

        A driver that was paused for longer than `LOST_SECONDS` may come back when another one has its place.

        Raises:
            TakenError: a later run has begun.
        """
        mine, later = runs.alias(), runs.alias()
        query = sa.select(later).where(
            mine.c.run_id == run_id,
            later.c.pipeline == mine.c.pipeline,
            later.c.app_id == mine.c.app_id,
            later.c.started_at > mine.c.started_at,
        )
        with self.engine.connect() as connection:
            if (other := connection.execute(query).first()) is not None:
                raise TakenError(
                    f"process {other.process} on {other.host} has gone on from this checkpoint, since this "
                    f"job gave no sign of life for {LOST_SECONDS:.0f} s; this one writes nothing more"
                )

    def require_stopped(self, pipeline: str) -> None:
        """Check that no job of the pipeline lives.

        Raises:
            TakenError: one does.
        """
        with self.engine.connect() as connection:
            if (other := connection.execute(_living(pipeline, None)).first()) is not None:
                raise TakenError(_taken(pipeline, other))

    def sign_of_life(self, run_id: str) -> None:
        """Note that the driver of a run is alive."""
        with self.engine.begin() as connection:
            connection.execute(runs.update().where(runs.c.run_id == run_id).values(alive_at=clock()))

    @_patiently
    def set_run_state(self, run_id: str, state: str, error: str | None = None) -> None:
        """Store the state of a run.

        Args:
            run_id: the run.
            state: `running`; `done`, if a bounded run has read all; `stopped`, by a signal; or `failed`.
            error: why the run failed; `None` if it did not fail.
        """
        ended = state in ("done", "stopped", "failed")
        with self.engine.begin() as connection:
            connection.execute(
                runs.update()
                .where(runs.c.run_id == run_id)
                .values(state=state, error=error, stopped_at=clock() if ended else None)
            )

    @_patiently
    def record_batch(
        self,
        pipeline: str,
        batch_id: int,
        run_id: str,
        samples: Mapping[str, float],
        offsets: Mapping[str, Mapping[str, int]],
    ) -> None:
        """Store a batch and its running totals.

        A repeated batch of a checkpoint keeps its first figures. Since it has other latencies, counters would
        go backwards, and Prometheus would take them for those of a new process.

        Args:
            pipeline: the pipeline's name.
            batch_id: the number of the batch.
            run_id: the run that finished the batch.
            samples: figures of the batch, by the name of the metric.
            offsets: the first offsets that are not read yet, by topic and partition.
        """
        with self.engine.begin() as connection:
            if connection.execute(_recorded(pipeline, batch_id, run_id)).first() is not None:
                this = (batches.c.pipeline == pipeline) & (batches.c.batch_id == batch_id)
                connection.execute(batches.update().where(this).values(run_id=run_id, committed_at=clock()))
                return
            before = connection.execute(_before(batches.c.totals, pipeline, batch_id)).scalar()
            connection.execute(
                batches.delete().where(
                    batches.c.pipeline == pipeline,
                    # Higher ids are left from an earlier checkpoint, since a new one counts from 0.
                    (batches.c.batch_id >= batch_id) | (batches.c.batch_id <= batch_id - KEPT_BATCHES),
                )
            )
            connection.execute(
                batches.insert().values(
                    pipeline=pipeline,
                    batch_id=batch_id,
                    run_id=run_id,
                    committed_at=clock(),
                    samples=dict(samples),
                    totals=accumulate(before or {}, samples),
                    offsets={topic: dict(ends) for topic, ends in offsets.items()},
                )
            )

    @_patiently
    def amend_batch(
        self,
        pipeline: str,
        batch_id: int,
        gauges: Mapping[str, float],
        offsets: Mapping[str, Mapping[str, int]],
    ) -> None:
        """Add the figures of a batch that are known only after its commit.

        Args:
            pipeline: the pipeline's name.
            batch_id: the number of the batch.
            gauges: gauges such as the batch's duration, by the name of the metric.
            offsets: the first offsets that are not read yet, by topic and partition. A topic here replaces
                all stored offsets of that topic.
        """
        this = (batches.c.pipeline == pipeline) & (batches.c.batch_id == batch_id)
        with self.engine.begin() as connection:
            row = connection.execute(
                sa.select(batches.c.samples, batches.c.totals, batches.c.offsets).where(this)
            ).first()
            if row is not None:
                amended = {"samples": {**row.samples, **gauges}, "totals": {**row.totals, **gauges}}
                read = {**row.offsets, **{topic: dict(ends) for topic, ends in offsets.items()}}
                connection.execute(batches.update().where(this).values(**amended, offsets=read))

    @_patiently
    def record_turns(
        self, pipeline: str, batch_id: int, rows: Sequence[Mapping[str, Any]], filed: Mapping[str, Any]
    ) -> None:
        """Store the turns that a batch has read; they replace those that an earlier attempt stored.

        Turns of long ago are removed, but not the one whose value a knob has.

        Args:
            pipeline: the pipeline's name.
            batch_id: the number of the batch.
            rows: rows of the table `turns` without `pipeline`, `batch_id` and `before`.
            filed: the value of each knob in the pipeline file, which holds before the first turn.
        """
        mine = turns.c.pipeline == pipeline
        with self.engine.begin() as connection:
            for turn in sorted(rows, key=lambda turn: (turn["partition"], turn["offset"])):
                here = mine & (turns.c.partition == turn["partition"])
                connection.execute(turns.delete().where(here, turns.c.offset == turn["offset"]))
                earlier = (
                    sa.select(turns.c.value)
                    .where(here, turns.c.offset < turn["offset"], turns.c.name == turn["name"])
                    .where(turns.c.refused.is_(None))
                    .order_by(turns.c.offset.desc())
                    .limit(1)
                )
                found = connection.execute(earlier).first()
                before = filed.get(turn["name"]) if found is None else found.value
                added = {"pipeline": pipeline, "batch_id": batch_id, "before": before}
                connection.execute(turns.insert().values(**turn, **added))
            newest = sa.select(turns.c.offset).where(mine).order_by(turns.c.offset.desc())
            if (
                rows
                and (until := connection.execute(newest.offset(KEPT_TURNS).limit(1)).scalar()) is not None
            ):
                taken = sa.select(sa.func.max(turns.c.offset)).where(mine, turns.c.refused.is_(None))
                hold = connection.execute(taken.group_by(turns.c.name)).scalars().all()
                connection.execute(
                    turns.delete().where(mine, turns.c.offset <= until, turns.c.offset.not_in(hold))
                )

    def turns(self, pipeline: str) -> Sequence[dict[str, Any]]:
        """Return the stored turns, also refused ones, in the order of their records, as mappings."""
        query = sa.select(turns).where(turns.c.pipeline == pipeline)
        with self.engine.connect() as connection:
            found = connection.execute(query.order_by(turns.c.partition, turns.c.offset))
            return [dict(row._mapping) for row in found]

    @_patiently
    def record_answers(self, pipeline: str, batch_id: int, found: Sequence[Mapping[str, Any]]) -> None:
        """Store the answers to questions that a batch has read; they replace those of an earlier attempt.

        Answers to questions of long ago are removed.

        Args:
            pipeline: the pipeline's name.
            batch_id: the number of the batch.
            found: the answers, each with `partition` and `offset` of its question.
        """
        by_question: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
        for answer in found:
            by_question.setdefault((answer["partition"], answer["offset"]), []).append(answer)
        with self.engine.begin() as connection:
            for (partition, offset), own in by_question.items():
                here = (answers.c.pipeline == pipeline) & (answers.c.partition == partition)
                old = (answers.c.offset == offset) | (answers.c.offset < offset - KEPT_ANSWERS)
                connection.execute(answers.delete().where(here, old))
                coordinates = {"pipeline": pipeline, "partition": partition, "offset": offset}
                row = coordinates | {"batch_id": batch_id, "answers": [dict(each) for each in own]}
                connection.execute(answers.insert().values(**row))

    def answer(self, pipeline: str, partition: int, offset: int) -> dict[str, Any] | None:
        """Return `batch_id` and `answers` for a question; `None` if there is no answer yet."""
        here = (answers.c.partition == partition) & (answers.c.offset == offset)
        query = sa.select(answers.c.batch_id, answers.c.answers).where(answers.c.pipeline == pipeline, here)
        with self.engine.connect() as connection:
            row = connection.execute(query).first()
        return dict(row._mapping) if row else None

    def is_running(self, pipeline: str) -> bool:
        """Return whether the pipeline's latest run has not ended, and gives signs of life."""
        run = self.latest_run(pipeline)
        if run is None or run["state"] not in ("starting", "running") or run["alive_at"] is None:
            return False
        return bool(abs(self.now() - run["alive_at"]) < LOST_SECONDS)

    def now(self) -> float:
        """Return the time by the database's clock, in Unix seconds."""
        with self.engine.connect() as connection:
            return float(connection.execute(sa.select(clock())).scalar_one())

    def refuse_turns(
        self, pipeline: str, why_not: Callable[[str, Any], str | None]
    ) -> Sequence[dict[str, Any]]:
        """Mark stored turns as refused if their values are no longer allowed; return these turns.

        Args:
            pipeline: the pipeline's name.
            why_not: given a knob's name and a value, returns why the value is not allowed, or `None`.
        """
        found = [turn for turn in self.turns(pipeline) if turn["refused"] is None]
        refused = [
            {**turn, "refused": why}
            for turn in found
            if (why := why_not(turn["name"], turn["value"])) is not None
        ]
        with self.engine.begin() as connection:
            for turn in refused:
                this = (turns.c.partition == turn["partition"]) & (turns.c.offset == turn["offset"])
                here = turns.update().where(turns.c.pipeline == pipeline, this)
                connection.execute(here.values(refused=turn["refused"]))
        return refused

    def latest_run(self, pipeline: str) -> dict[str, Any] | None:
        """Return the pipeline's run that started last, as a mapping of its columns; `None` without runs."""
        query = sa.select(runs).where(runs.c.pipeline == pipeline).order_by(runs.c.started_at.desc()).limit(1)
        with self.engine.connect() as connection:
            row = connection.execute(query).first()
        return dict(row._mapping) if row else None

    def latest_batch(self, pipeline: str) -> FinishedBatch | None:
        found = self.batches_after(pipeline, -1, limit=1)
        return found[0] if found else None

    @_patiently
    def offsets_before(self, pipeline: str, batch_id: int) -> dict[str, dict[str, int]]:
        """Return the first offsets that were not read when a batch began, by topic and partition.

        Only batches with lower ids count. A stored batch of the same or a higher id is an earlier attempt, or
        belongs to an earlier checkpoint, which may have read other topics.
        """
        with self.engine.connect() as connection:
            found = connection.execute(_before(batches.c.offsets, pipeline, batch_id)).scalar()
        return found or {}

    def totals_at(self, pipeline: str, at: float) -> Samples:
        """Return the totals that held at a time, in Unix seconds; empty if there was no batch yet."""
        until = (batches.c.pipeline == pipeline) & (batches.c.committed_at <= at)
        query = sa.select(batches.c.totals).where(until).order_by(batches.c.batch_id.desc()).limit(1)
        with self.engine.connect() as connection:
            found: Samples | None = connection.execute(query).scalar()
        return found or {}

    def batches_after(self, pipeline: str, batch_id: int, limit: int) -> Sequence[FinishedBatch]:
        """Return the newest batches whose number is greater than `batch_id`, the oldest of them first.

        Args:
            pipeline: the pipeline's name.
            batch_id: the number of a batch; -1 for all batches.
            limit: the most batches to return.
        """
        query = (
            sa.select(batches)
            .where(batches.c.pipeline == pipeline, batches.c.batch_id > batch_id)
            .order_by(batches.c.batch_id.desc())
            .limit(limit)
        )
        with self.engine.connect() as connection:
            return [FinishedBatch(**row._mapping) for row in reversed(connection.execute(query).all())]


def _put(connection: sa.Connection, pipeline: str, values: Mapping[str, Any]) -> None:
    """Update the pipeline's row, or insert it."""
    changed = pipelines.update().where(pipelines.c.pipeline == pipeline).values(**values)
    if not connection.execute(changed).rowcount:
        connection.execute(pipelines.insert().values(**{"pipeline": pipeline, "description": None, **values}))


def _copy_turns(connection: sa.Connection, app_id: str, pipeline: str) -> None:
    """Copy the turns of a checkpoint to the present name of its pipeline, if it had another one."""
    latest = sa.select(runs.c.pipeline).where(runs.c.app_id == app_id).order_by(runs.c.started_at.desc())
    before = connection.execute(latest.limit(1)).scalar()
    if before in {None, pipeline}:
        return
    names = [column.name for column in turns.c if column is not turns.c.pipeline]
    copied = sa.select(sa.literal(pipeline), *(turns.c[name] for name in names))
    # Those that are there are turns of another checkpoint, which had this name.
    connection.execute(turns.delete().where(turns.c.pipeline == pipeline))
    connection.execute(
        turns.insert().from_select(["pipeline", *names], copied.where(turns.c.pipeline == before))
    )


def _wait_for_others(connection: sa.Connection, pipeline: str) -> None:
    """Lock the pipeline's row until the transaction ends, so that each job sees the jobs before it."""
    _put(connection, pipeline, {"pipeline": pipeline})


def _living(pipeline: str, exempt: str | None) -> sa.Select[Any]:
    """Select the living runs of the pipeline, and the seconds since their last sign.

    Runs of the checkpoint with the app id `exempt` are left out. Only the last run of a checkpoint can live,
    since it was admitted after the earlier runs had ended.
    """
    later = runs.alias()
    followed = sa.exists().where(
        later.c.pipeline == pipeline,
        later.c.app_id == runs.c.app_id,
        later.c.started_at > runs.c.started_at,
    )
    return sa.select(runs, (clock() - runs.c.alive_at).label("silent")).where(
        runs.c.pipeline == pipeline,
        runs.c.state.in_(("starting", "running")),
        sa.true() if exempt is None else runs.c.app_id != exempt,
        ~followed,
        # If the clock was put back, a sign may lie in the future.
        sa.func.abs(clock() - runs.c.alive_at) < LOST_SECONDS,
    )


def _taken(pipeline: str, other: sa.Row[Any]) -> str:
    return (
        f"another job named {pipeline} runs already: process {other.process} on {other.host}, checkpoint "
        f"{other.checkpoint}; stop it, give this one another name or another --ops-url, or, if that one was "
        f"killed, start this one again in {LOST_SECONDS:.0f} s (its last sign of life is "
        f"{max(0.0, other.silent):.0f} s old)"
    )


def _recorded(pipeline: str, batch_id: int, run_id: str) -> sa.Select[Any]:
    """Select a batch if a run of the same checkpoint as `run_id` has stored it."""
    mine, other = runs.alias(), runs.alias()
    return sa.select(batches.c.batch_id).where(
        batches.c.pipeline == pipeline,
        batches.c.batch_id == batch_id,
        other.c.run_id == batches.c.run_id,
        mine.c.app_id == other.c.app_id,
        mine.c.run_id == run_id,
    )


def _before(column: sa.Column[Any], pipeline: str, batch_id: int) -> sa.Select[Any]:
    """Select a column of the last batch before `batch_id`."""
    earlier = sa.select(column).where(batches.c.pipeline == pipeline, batches.c.batch_id < batch_id)
    return earlier.order_by(batches.c.batch_id.desc()).limit(1)


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
        batch = ops.latest_batch(pipeline)
    if batch is None:
        raise ConfigError(
            f"the ops database has no batch of {pipeline}; name the one that its job was given by --ops-url"
        )
    return {topic: {int(at): end for at, end in ends.items()} for topic, ends in batch.offsets.items()}
