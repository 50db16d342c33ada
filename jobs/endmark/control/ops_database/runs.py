"""The runs of each pipeline: which job lives, and how earlier ones ended."""

from __future__ import annotations

import os
import socket
from typing import Any

import sqlalchemy as sa

from endmark.control.ops_database.access import attempts
from endmark.control.ops_database.clock import clock
from endmark.control.ops_database.part import Part, patiently
from endmark.control.ops_database.pipelines import lock
from endmark.control.ops_database.tables import runs, turns
from endmark.errors import MissingPartError

# A driver counts as gone after this time without a sign of life. Signs come every 5 s. While 30 programs
# wanted two cores and a job read a full feed, 59 signs were 5.0 s apart in the median, and 8.0 s at most.
LOST_SECONDS = 30.0
KEPT_RUNS = 1_000  # a run a minute made 525,600 rows a year, and each answer of the sidecar took 0.5 s
_LIVING = "starting", "running"


class TakenError(MissingPartError):
    """A living job has the pipeline's name."""


class Runs(Part):
    """Reads and writes the table of runs. A run is one life of a driver."""

    @patiently
    def start(self, run_id: str, pipeline: str, app_id: str, checkpoint: str, *, locked: bool = True) -> None:
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
            with attempt, self._engine.begin() as connection:
                lock(connection, pipeline)
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

    @patiently
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
        with self._engine.connect() as connection:
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
        with self._engine.connect() as connection:
            if (other := connection.execute(_living(pipeline, None)).first()) is not None:
                raise TakenError(_taken(pipeline, other))

    def sign_of_life(self, run_id: str) -> None:
        """Note that the driver of a run is alive."""
        with self._engine.begin() as connection:
            connection.execute(runs.update().where(runs.c.run_id == run_id).values(alive_at=clock()))

    @patiently
    def set_state(self, run_id: str, state: str, error: str | None = None) -> None:
        """Store the state of a run.

        Args:
            run_id: the run.
            state: `running`; `done`, if a bounded run has read all; `stopped`, by a signal; or `failed`.
            error: why the run failed; `None` if it did not fail.
        """
        ended = state in ("done", "stopped", "failed")
        with self._engine.begin() as connection:
            connection.execute(
                runs.update()
                .where(runs.c.run_id == run_id)
                .values(state=state, error=error, stopped_at=clock() if ended else None)
            )

    def is_running(self, pipeline: str) -> bool:
        """Return whether the pipeline's latest run has not ended, and gives signs of life."""
        silent = sa.func.abs(clock() - runs.c.alive_at)
        query = sa.select(runs.c.state, silent.label("silent")).where(runs.c.pipeline == pipeline)
        with self._engine.connect() as connection:
            run = connection.execute(query.order_by(runs.c.started_at.desc()).limit(1)).first()
        if run is None or run.silent is None:
            return False
        return run.state in _LIVING and bool(run.silent < LOST_SECONDS)

    def latest(self, pipeline: str) -> dict[str, Any] | None:
        """Return the pipeline's run that started last, as a mapping of its columns; `None` without runs."""
        query = sa.select(runs).where(runs.c.pipeline == pipeline).order_by(runs.c.started_at.desc()).limit(1)
        with self._engine.connect() as connection:
            row = connection.execute(query).first()
        return dict(row._mapping) if row else None


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
        runs.c.state.in_(_LIVING),
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
