"""A soak: hours at half of the highest rate, with kills and turned knobs, in which nothing may grow."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from processes.campaign import ended
from processes.case import HEALED_SECONDS, caught_up, settled
from processes.fault import Marker
from processes.faults import FAULTS
from processes.rig import START_SECONDS, Rig
from processes.slopes import slope

RATE = 1_000.0
_KILL_SECONDS, _TURN_SECONDS, _ALTER_SECONDS, _SAMPLE_SECONDS = 600.0, 90.0, 300.0, 10.0
_WARM_SECONDS = 60.0  # in which a young job fills its caches
_TRIED_SECONDS = 30.0  # of records that are sent at once, to find the highest rate
_MIB = 1 << 20


def soak(rig: Rig, hours: float, seed: int, keep: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Run a job for hours, and return samples, slopes and what is wrong.

    Args:
        rig: a rig with the rate `RATE`.
        hours: the length.
        seed: equal seeds give equal kills and turns.
        keep: called with the report so far, once in a while.
    """
    chance, report = random.Random(f"soak {seed}"), dict[str, Any](wrong=[], samples=[], kills=0, turns=0)
    rig.feed.resume()
    assert rig.wait(lambda: rig.batches() > 0, START_SECONDS), "the job does not begin"
    report["highest"] = round(highest_rate(rig))
    rig.feed.go_at(report["highest"] / 2 / RATE)
    began = time.monotonic()
    due = {"kill": _KILL_SECONDS, "turn": _TURN_SECONDS, "alter": _ALTER_SECONDS, "sample": 0.0}
    period = {
        "kill": _KILL_SECONDS,
        "turn": _TURN_SECONDS,
        "alter": _ALTER_SECONDS,
        "sample": _SAMPLE_SECONDS,
    }
    try:
        while (now := time.monotonic() - began) < hours * 3600:
            for what in [name for name, at in due.items() if at <= now]:
                due[what] = now + period[what]
                if what == "sample":
                    report["samples"].append({"at": round(now, 1), "life": len(rig.ends), **measured(rig)})
                    keep(report | {"slopes": slopes(report["samples"])})
                elif what == "kill":
                    _inject(rig, "killed", chance, report)
                    caught_up(rig, HEALED_SECONDS)
                    report["kills"] += 1
                else:
                    name = (
                        chance.choice(["batches small", "memory short"])
                        if what == "turn"
                        else "relation altered"
                    )
                    _inject(rig, name, chance, report)
                    report["turns"] += 1
            rig.stay(1)
        report["wrong"] += settled(rig, HEALED_SECONDS).wrong
        report["wrong"] += ended(rig).wrong
    except AssertionError as error:
        report["wrong"].append(str(error))
    return report | {
        "hours": hours,
        "slopes": slopes(report["samples"]),
        "ends": [asdict(end) for end in rig.ends],
    }


def highest_rate(rig: Rig) -> float:
    """Send the records of half a minute at once, and return how many the job reads in a second."""
    caught_up(rig, HEALED_SECONDS)
    before, began = rig.feed.sent, time.monotonic()
    rig.feed.hurry(_TRIED_SECONDS)
    rig.stay(2)
    caught_up(rig, HEALED_SECONDS)
    return (rig.feed.sent - before) / (time.monotonic() - began)


def measured(rig: Rig) -> dict[str, float]:
    """Return what a job and its files take now."""
    memory = descriptors = 0.0
    for pid in rig.processes():
        with suppress(OSError, IndexError):
            memory += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / _MIB
            descriptors += len(list(Path(f"/proc/{pid}/fd").iterdir()))
    checkpoint = list(_files(rig.spark.parent))
    tables = list(_files(rig.disk("job") / "warehouse"))
    batch = rig.batch()
    samples = {} if batch is None else batch.samples
    return {
        "memory_mib": round(memory, 1),
        "descriptors": descriptors,
        "checkpoint_files": len(checkpoint),
        "checkpoint_mib": round(sum(checkpoint) / _MIB, 2),
        "table_files": len(tables),
        "batch_seconds": round(samples.get("batch_seconds{phase=total}", 0.0), 3),
        "state_rows": sum(value for key, value in samples.items() if key.startswith("state_rows")),
    }


def slopes(samples: list[dict[str, float]]) -> dict[str, Any]:
    """Return the slope of each quantity within the lives of the job, less the first minute of each."""
    found = {}
    for name in (
        "memory_mib",
        "descriptors",
        "checkpoint_files",
        "checkpoint_mib",
        "batch_seconds",
        "state_rows",
    ):
        lives: dict[float, list[tuple[float, float]]] = {}
        for each in samples:
            lives.setdefault(each["life"], []).append((each["at"], each[name]))
        warm = [[point for point in life if point[0] > life[0][0] + _WARM_SECONDS] for life in lives.values()]
        line = slope(warm)
        found[name] = None if line is None else line._asdict()
    return found


def _files(directory: Path) -> Iterator[int]:
    """Yield the sizes of all files, but for those that go meanwhile."""
    for file in directory.rglob("*"):
        with suppress(OSError):
            if file.is_file():
                yield file.stat().st_size


def _inject(rig: Rig, name: str, chance: random.Random, report: dict[str, Any]) -> None:
    fault, marker = FAULTS[name], Marker()
    with fault.inject(rig, chance, marker):
        rig.stay(chance.uniform(*fault.seconds))
    if not marker.landed:
        report["wrong"].append(f"{name} did not land: {marker.seen}")
