"""Faults of the job's own processes: kills, stops, and second drivers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

from endmark.errors import MissingPartError
from processes.fault import Fault, Inject, Job, Marker
from processes.kill_points import POINTS
from processes.rig import Rig
from support.processes import descendants, signal_all
from support.relation_outages import resume, stall
from support.warehouse import errors

_STOP_SECONDS = 60.0
_REFUSED_SECONDS = 180.0
_TAKEN = "in use by another job", "runs already"
_PREFORK = "endmark.spark.processes.prefork"  # in the command of the server, and of all that it forks
_DRIVER = frozenset({"driver"})
_ALL = _DRIVER | {"broker", "database"}  # a job asks both for its start
# Tables that have the batch at a point: none, some or all of those that get rows of it.
_NONE, _SOME = "none", "some"
_TABLES = {"planned": _NONE, "tasks run": _NONE, "files written": _NONE}
_TABLES |= dict.fromkeys(["between tables", "tables written", "batch recorded", "sink left"], _SOME)


def _killed_at(point: str) -> Inject:
    @contextmanager
    def inject(rig: Rig, chance: Random, marker: Marker) -> Iterator[None]:
        with rig.unattended():
            rig.trap.arm(point, chance.uniform(0, 0.4))
            rig.wait(lambda: rig.trap.sprung() is not None and not rig.job.running, rig.patience)
            rig.trap.disarm()
            sprung = rig.trap.sprung()
            marker.seen |= sprung or {}
            if sprung is not None:
                batch = sprung["batch"]
                marker.seen |= _window(rig)
                there = _SOME if rig.tables_with(batch) else _NONE
                marker.seen["tables"] = there
                is_open = rig.planned() == batch and rig.committed() == batch - 1
                marker.landed = is_open and there == _TABLES[point] and rig.end().code == -signal.SIGKILL
        yield

    return inject


def _window(rig: Rig) -> dict[str, int]:
    """Return the last batch that is planned, and the last one that is committed."""
    return {"planned": rig.planned(), "committed": rig.committed()}


def _wait_a_moment(rig: Rig, chance: Random) -> None:
    """Wait for a batch, and then for a part of the next ones."""
    before = rig.batches()
    rig.wait(lambda: rig.batches() > before, rig.patience)
    rig.stay(chance.uniform(0, 2))


@contextmanager
def _killed(rig: Rig, chance: Random, marker: Marker) -> Iterator[None]:
    _wait_a_moment(rig, chance)
    with rig.unattended():
        lived = rig.job.running
        rig.job.kill()
        marker.seen |= _window(rig)
        marker.landed = lived and rig.end().code == -signal.SIGKILL
    yield


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def _is_alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@contextmanager
def _driver_killed(rig: Rig, chance: Random, marker: Marker) -> Iterator[None]:
    """Kill the driver's Python alone; its JVM and workers must end by themselves."""
    _wait_a_moment(rig, chance)
    with rig.unattended():
        others = [pid for pid in rig.processes() if pid != rig.job.pid]
        os.kill(rig.job.pid, signal.SIGKILL)
        rig.wait(lambda: not rig.job.running, 10)
        marker.seen |= {"left": sum(map(_is_alive, others)), **_window(rig)}
        marker.landed = marker.seen["left"] > 0
    yield
    assert rig.wait(lambda: not any(map(_is_alive, others)), 30), "processes of a dead driver live on"


def _jvms(rig: Rig) -> list[int]:
    """Return the JVM of the driver; nothing while a job starts."""
    return [pid for pid in rig.processes() if "org.apache.spark.deploy.SparkSubmit" in _command(pid)]


@contextmanager
def _jvm_killed(rig: Rig, chance: Random, marker: Marker) -> Iterator[None]:
    _wait_a_moment(rig, chance)
    with rig.unattended():
        for jvm in _jvms(rig):
            os.kill(jvm, signal.SIGKILL)
            ended = rig.wait(lambda: not rig.job.running, 60)
            assert ended, "the driver goes on without its JVM"
            marker.seen |= {"code": rig.end().code, "error": rig.end().error[:200], **_window(rig)}
            marker.landed = rig.end().code == 1
    yield


def _workers(rig: Rig) -> list[int]:
    """Return the Python processes of tasks: Spark's daemon has forked them, and our server the daemon.

    There are none before the first task of a job.
    """
    servers = [pid for pid in rig.processes() if _PREFORK in _command(pid)]
    daemons = descendants(servers[0])[1:] if servers else []
    return [worker for daemon in daemons for worker in descendants(daemon)[1:]]


@contextmanager
def _worker_killed(rig: Rig, chance: Random, marker: Marker) -> Iterator[None]:
    _wait_a_moment(rig, chance)
    ends = len(rig.ends)
    workers = _workers(rig)
    if workers:
        worker = chance.choice(workers)
        os.kill(worker, signal.SIGKILL)
        marker.landed = rig.wait(lambda: not _is_alive(worker), 10)
    yield
    marker.seen |= {"workers": len(workers), "job ended": len(rig.ends) > ends}


@contextmanager
def _stopped(rig: Rig, chance: Random, marker: Marker) -> Iterator[None]:
    _wait_a_moment(rig, chance)
    with rig.unattended():
        began = time.monotonic()
        os.killpg(rig.job.pid, signal.SIGTERM)
        assert rig.wait(lambda: not rig.job.running, _STOP_SECONDS), "the job does not stop"
        marker.seen |= {"seconds": round(time.monotonic() - began, 1), "code": rig.end().code}
        assert rig.end().code == 0, rig.end()
        marker.landed = True
    yield


@contextmanager
def _stopped_late(rig: Rig, chance: Random, marker: Marker) -> Iterator[None]:
    """Ask a job to stop that waits for its database, and kill it a moment later, before it has stopped."""
    _wait_a_moment(rig, chance)
    assert rig.database.pid is not None
    with rig.unattended():
        stall(rig.database.pid)
        try:
            before = rig.batches()
            rig.wait(lambda: False, 2)
            os.kill(rig.job.pid, signal.SIGTERM)
            rig.wait(lambda: not rig.job.running, chance.uniform(0, 1))
            marker.seen |= {"stopped in time": not rig.job.running, "batches": rig.batches() - before}
            marker.landed = rig.job.running
            rig.job.kill()
        finally:
            resume(rig.database.pid)
    yield


@contextmanager
def _second_driver(rig: Rig, chance: Random, marker: Marker) -> Iterator[None]:
    """Start another job on the checkpoint of a living one; it must be refused."""
    _wait_a_moment(rig, chance)
    _refused(rig, marker)
    yield


def _refused(rig: Rig, marker: Marker) -> None:
    second, code = rig.warehouse.start_job(), 0
    try:
        second.wait_done(_REFUSED_SECONDS)
    except MissingPartError as error:
        code = 2 * ("failed with code 2" in str(error))
    said = str(errors(second)[-1:])
    marker.seen["refused"] = said[:200]
    marker.landed = code != 0 and any(words in said for words in _TAKEN)
    assert marker.landed, f"a second driver was not refused: {said}"


@contextmanager
def _zombie(rig: Rig, chance: Random, marker: Marker) -> Iterator[None]:
    """Let a job stand still for so long that it counts as lost, and then go on beside a refused successor."""
    _wait_a_moment(rig, chance)
    stopped = rig.processes()
    signal_all(rig.job.pid, signal.SIGSTOP)
    before = rig.batches()
    try:
        _refused(rig, marker)
        yield
        marker.seen["batches"] = rig.batches() - before
        marker.landed &= rig.batches() == before
    finally:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


FAULTS = {
    f"killed: {point}": Fault(
        "F1", f"SIGKILL of the whole job when {how}", _killed_at(point), Job.ENDS, parts=_DRIVER, weight=0.5
    )
    for point, how in POINTS.items()
} | {
    "killed": Fault(
        "F2", "SIGKILL of the whole job at a random moment", _killed, Job.ENDS, parts=_DRIVER, weight=3
    ),
    "driver killed": Fault(
        "F2",
        "SIGKILL of the driver's Python alone; the next job starts while its JVM may live",
        _driver_killed,
        Job.ENDS,
        parts=_DRIVER,
        weight=2,
    ),
    "JVM killed": Fault(
        "F3", "SIGKILL of the JVM, which is driver and executor", _jvm_killed, Job.ENDS, parts=_DRIVER
    ),
    "worker killed": Fault(
        "F3",
        "SIGKILL of one Python process of the tasks",
        _worker_killed,
        Job.MAY_END,
        parts=_DRIVER,
        weight=2,
    ),
    "stopped": Fault(
        "F4", "SIGTERM to all processes; the job ends with code 0", _stopped, Job.ENDS, parts=_DRIVER
    ),
    "stopped late": Fault(
        "F4",
        "SIGTERM while the database hangs, and SIGKILL up to a second later",
        _stopped_late,
        Job.ENDS,
        parts=_DRIVER | {"database"},
    ),
    "second driver": Fault(
        "F16", "another job starts on the same checkpoint and is refused", _second_driver, parts=_ALL
    ),
    "zombie": Fault(
        "F16",
        "all processes stand still for 35 s or more, a successor is refused, and they go on",
        _zombie,
        Job.MAY_END,
        (35, 40),
        parts=_ALL,
        weight=0.3,
    ),
}
