"""The state of the pipeline, and why it would not be ready."""

from __future__ import annotations

from typing import Literal, cast

from endmark.control.database import LOST_SECONDS
from endmark_ops.source import Run, Snapshot

STALE_SECONDS = 30.0  # so old may the last batch of a running job be, unless it is said
State = Literal["waiting", "starting", "running", "stale", "lost", "stopped", "failed"]


def state(snapshot: Snapshot, stale_seconds: float) -> State:
    """The latest run's state; `waiting` before the first run, `stale` when a running one went quiet.

    It is `lost` when the run has not told of its end and its driver gives no sign of life. A run that has
    just started is not stale because the batch before it is old.
    """
    run = snapshot.run
    if run is None:
        return "waiting"
    if is_lost(snapshot):
        return "lost"
    if run.state == "running" and snapshot.now - _last_sign_of_life(run, snapshot) > stale_seconds:
        return "stale"
    return cast(State, run.state)


def is_lost(snapshot: Snapshot) -> bool:
    """Return whether the driver of the latest run has been away for too long without telling its end."""
    run, age = snapshot.run, snapshot.beat_age
    if run is None or run.state not in ("starting", "running"):
        return False
    return age is None or age > LOST_SECONDS


def reasons_not_ready(snapshot: Snapshot, stale_seconds: float) -> list[str]:
    """Why the pipeline is not ready, one sentence each; empty when it is."""
    reasons = []
    run, age = snapshot.run, snapshot.batch_age
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
    elif age > stale_seconds:
        reasons.append(f"the last batch is {age:.0f} s old, more than {stale_seconds:g} s")
    return reasons


def _last_sign_of_life(run: Run, snapshot: Snapshot) -> float:
    committed = snapshot.batch.committed_at if snapshot.batch else 0.0
    return max(run.started_at, committed)
