"""The state of a pipeline, and the reasons why it is not ready."""

from __future__ import annotations

from typing import Literal, cast

from endmark.control.ops_database.runs import LOST_SECONDS
from endmark_ops.readers.source import Run, Snapshot

# The age of the last batch, unless another one is given, at which records wait for too long.
STALE_SECONDS = 30.0
State = Literal["waiting", "starting", "running", "stale", "lost", "done", "stopped", "failed"]


def state(snapshot: Snapshot, stale_seconds: float) -> State:
    """Return the state of the pipeline's latest run.

    Usually this is the state that the job itself wrote. Before the first run it is `waiting`. A running job
    is `stale` when it has committed nothing for longer than `stale_after` since its start or its last batch,
    unless Kafka says that no record waits: such a job has nothing to commit. A run is `lost` when no end of
    it is stored, but its driver gives no sign of life.
    """
    run = snapshot.run
    if run is None:
        return "waiting"
    if is_lost(snapshot):
        return "lost"
    silent = snapshot.now - _last_sign_of_life(run, snapshot)
    if run.state == "running" and silent > stale_after(snapshot, stale_seconds) and _may_wait(snapshot):
        return "stale"
    return cast(State, run.state)


def is_lost(snapshot: Snapshot) -> bool:
    """Return whether no end of the latest run is stored, but its driver gives no sign of life.

    A sign of life counts if it is at most `LOST_SECONDS` old, or at most so far in the future. It lies in the
    future if the ops database's clock was put back, and the next sign then comes within seconds.
    """
    run = snapshot.run
    if run is None or run.state not in ("starting", "running"):
        return False
    return snapshot.alive_at is None or abs(snapshot.now - snapshot.alive_at) > LOST_SECONDS


def reasons_not_ready(snapshot: Snapshot, stale_seconds: float) -> list[str]:
    """Return the reasons why the pipeline is not ready, a sentence each; an empty list if it is ready.

    A pipeline is ready, however old its last batch is, if its bounded run is done or no record waits.
    """
    reasons = []
    run, age = snapshot.run, snapshot.batch_age
    if run is not None and run.state == "done":
        return []
    if run is None:
        reasons.append("no run of this pipeline has started")
    elif is_lost(snapshot):
        reasons.append(
            f"the latest run says it is {run.state}, but its driver has given no sign of life for more than "
            f"{LOST_SECONDS:.0f} s: it was killed, its machine is gone, or it does not reach the ops database"
        )
    elif run.state != "running":
        reasons.append(f"the latest run is {run.state}" + (f": {run.error}" if run.error else ""))
    if age is None:
        reasons.append("no batch has been committed")
    elif age > (limit := stale_after(snapshot, stale_seconds)) and _may_wait(snapshot):
        reasons.append(f"the last batch is {age:.0f} s old, more than {limit:g} s")
    return reasons


def stale_after(snapshot: Snapshot, stale_seconds: float) -> float:
    """Return the age of the last batch, in seconds, at which records wait for too long.

    These are `stale_seconds`, or twice `batch.every` of the pipeline file if that is longer. Records may wait
    for so long until the next batch begins, and the batch takes time, too.
    """
    return max(stale_seconds, 2 * snapshot.every)


def _may_wait(snapshot: Snapshot) -> bool:
    """Return whether records wait in Kafka for a batch, or may do so since Kafka does not say."""
    return snapshot.lag is None or sum(snapshot.lag.values()) > 0


def _last_sign_of_life(run: Run, snapshot: Snapshot) -> float:
    committed = snapshot.batch.committed_at if snapshot.batch else 0.0
    return max(run.started_at, committed)
