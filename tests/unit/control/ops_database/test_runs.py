"""Runs: which job lives, and which one has the name of a pipeline."""

from __future__ import annotations

import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from threading import Barrier

import pytest
import sqlalchemy as sa

from endmark.control.ops_database import signs_of_life
from endmark.control.ops_database.database import OpsDatabase
from endmark.control.ops_database.runs import LOST_SECONDS, TakenError
from endmark.control.ops_database.signs_of_life import SignsOfLife
from endmark.control.ops_database.tables import runs
from endmark.errors import MissingPartError


def test_old_runs_are_removed(ops: OpsDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of other pipelines stay."""
    monkeypatch.setattr("endmark.control.ops_database.runs.KEPT_RUNS", 2)
    for number in range(4):
        for pipeline in ("auction", "orders")[: 2 if number == 0 else 1]:
            ops.runs.start(f"{pipeline}-{number}", pipeline, "app", "/checkpoint")
            ops.runs.set_state(f"{pipeline}-{number}", "done")

    with ops.engine.connect() as connection:
        kept = connection.execute(sa.select(runs.c.run_id)).scalars().all()
    assert sorted(kept) == ["auction-2", "auction-3", "orders-0"]


def test_runs_of_other_pipelines_stay_apart(ops: OpsDatabase) -> None:
    """The latest run is the pipeline's own."""
    ops.runs.start("mine", "auction", "app", "/checkpoint")
    ops.runs.start("other", "orders", "app", "/checkpoint")
    ops.runs.set_state("mine", "failed", "the cause")

    run = ops.runs.latest("auction")
    assert run is not None
    assert (run["run_id"], run["state"], run["error"]) == ("mine", "failed", "the cause")
    assert ops.runs.latest("none") is None


def grow_old(ops: OpsDatabase, run_id: str, seconds: float) -> None:
    """Let the last sign of life of a run be so much older, or of the future."""
    with ops.engine.begin() as connection:
        mine = runs.update().where(runs.c.run_id == run_id)
        connection.execute(mine.values(alive_at=runs.c.alive_at - seconds))


def test_without_a_lock_a_checkpoint_has_one_job(ops: OpsDatabase) -> None:
    """In an object store, a job that was killed keeps its checkpoint as long as it could be alive."""
    url = "s3://shop/checkpoint"
    ops.runs.start("first", "auction", "app-1", url, locked=False)
    with pytest.raises(TakenError, match="another job named auction runs already"):
        ops.runs.start("second", "auction", "app-1", url, locked=False)
    with pytest.raises(TakenError, match="another job named auction runs already"):
        ops.runs.require_stopped("auction")

    grow_old(ops, "first", LOST_SECONDS + 5)
    ops.runs.require_stopped("auction")
    ops.runs.require_last("first")
    ops.runs.start("second", "auction", "app-1", url, locked=False)
    with pytest.raises(TakenError, match="has gone on from this checkpoint"):
        ops.runs.require_last("first")
    ops.runs.require_last("second")
    ops.runs.set_state("second", "stopped")
    ops.runs.require_stopped("auction")


def test_a_name_is_taken_while_its_job_lives(ops: OpsDatabase) -> None:
    """A job of another checkpoint is refused while the first one lives, and gets its place when that one has
    ended or gives no sign of life. One that was killed starts again on its checkpoint at once."""
    ops.runs.start("first", "auction", "app-1", "/checkpoints/1")
    ops.runs.start("restarted", "auction", "app-1", "/checkpoints/1")
    ops.runs.start("orders", "orders", "app-2", "/checkpoints/2")
    for old in (0, LOST_SECONDS - 5):
        grow_old(ops, "first", 1000)
        grow_old(ops, "restarted", old)
        with pytest.raises(MissingPartError) as refused:
            ops.runs.start("other", "auction", "app-2", "/checkpoints/2")
        assert f"process {os.getpid()} on {socket.gethostname()}, checkpoint /checkpoints/1" in str(
            refused.value
        )
    ops.runs.sign_of_life("restarted")
    with pytest.raises(MissingPartError, match=r"its last sign of life is \d s old"):
        ops.runs.start("other", "auction", "app-2", "/checkpoints/2")
    assert ops.runs.latest("auction")["run_id"] == "restarted"  # type: ignore[index]

    grow_old(ops, "restarted", LOST_SECONDS + 5)
    ops.runs.start("other", "auction", "app-2", "/checkpoints/2")
    ops.runs.set_state("other", "stopped")
    ops.runs.start("third", "auction", "app-3", "/checkpoints/3")
    grow_old(ops, "third", -10_000)
    ops.runs.start("fourth", "auction", "app-4", "/checkpoints/4")
    assert [_state(ops, run) for run in ("first", "restarted", "other")] == [
        "starting",
        "starting",
        "stopped",
    ]


def test_a_killed_run_that_was_followed_by_another_takes_no_name(ops: OpsDatabase) -> None:
    """However young its last sign of life is: the other one got the lock of their checkpoint."""
    ops.runs.start("killed", "auction", "app-1", "/checkpoints/1")
    with ops.engine.begin() as connection:
        connection.execute(runs.update().values(started_at=runs.c.started_at - 1))
    ops.runs.start("follower", "auction", "app-1", "/checkpoints/1")
    ops.runs.set_state("follower", "stopped")
    ops.runs.start("other", "auction", "app-2", "/checkpoints/2")

    assert [_state(ops, run) for run in ("killed", "follower", "other")] == [
        "starting",
        "stopped",
        "starting",
    ]


def _state(ops: OpsDatabase, run_id: str) -> str:
    with ops.engine.connect() as connection:
        found = connection.execute(sa.select(runs.c.state).where(runs.c.run_id == run_id))
        return str(found.scalar_one())


def test_a_run_that_starts_after_the_clock_was_put_back_is_the_latest(ops: OpsDatabase) -> None:
    """A clock that was an hour ahead hid the runs of that hour, and stopped those with a checkpoint in S3."""
    ops.runs.start("ahead", "auction", "app", "s3://shop/checkpoint", locked=False)
    ops.runs.set_state("ahead", "failed", "the machine was restarted")
    with ops.engine.begin() as connection:
        connection.execute(runs.update().values(started_at=runs.c.started_at + 3600))
    ops.runs.start("next", "auction", "app", "s3://shop/checkpoint", locked=False)

    latest = ops.runs.latest("auction")
    assert latest is not None
    assert latest["run_id"] == "next"
    ops.runs.require_last("next")
    with pytest.raises(TakenError, match="has gone on from this checkpoint"):
        ops.runs.require_last("ahead")


def test_of_jobs_that_start_together_one_gets_the_name(ops: OpsDatabase) -> None:
    """Only one starts, even if the pipeline had no run before."""
    together = Barrier(4)

    def started(number: int) -> bool:
        together.wait()
        try:
            ops.runs.start(f"run-{number}", "auction", f"app-{number}", "/checkpoint")
        except MissingPartError:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(started, range(4))) == 1


@pytest.mark.parametrize("locked", [True, False])
def test_a_start_may_be_stored_again(ops: OpsDatabase, locked: bool) -> None:
    """A server that goes away may have stored it, and its answer is lost."""
    for _ in range(2):
        ops.runs.start("run", "auction", "app", "s3://shop/checkpoint", locked=locked)

    ops.runs.require_last("run")
    assert _state(ops, "run") == "starting"


def test_times_are_by_the_databases_clock(ops: OpsDatabase) -> None:
    """It goes on, and on this machine it is that of Python."""
    before = time.time()
    times = [ops.now() for _ in range(3)]

    assert times == sorted(times)
    assert before - 0.01 <= times[0] <= times[-1] <= time.time() + 0.01


def test_a_job_says_that_its_file_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite goes on with the removed file, so the sidecar saw nothing of the job, and nobody knew why."""
    monkeypatch.setattr(signs_of_life, "SIGN_SECONDS", 0.01)
    said: SimpleQueue[str] = SimpleQueue()
    with closing(OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")) as ops:
        ops.runs.start("run", "auction", "app", "/checkpoint")
        with SignsOfLife(ops, "run", said.put):
            (tmp_path / "ops.db").unlink()
            line = said.get(timeout=30)

    assert line.startswith(f"the ops database sqlite:///{tmp_path / 'ops.db'} was removed or replaced")
    assert said.empty()
