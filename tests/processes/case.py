"""A case: one fault on a rig, progress after it, and the verdict."""

from __future__ import annotations

import random
import re
import time
from dataclasses import dataclass, field
from typing import Any

from processes.fault import Fault, Job, Marker
from processes.oracle import Verdict, verdict
from processes.rig import START_SECONDS, Rig

HEALED_SECONDS = 120.0
_REFUSED_SECONDS = 180.0


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case.

    Args:
        landed: whether the fault was there; the run is invalid otherwise.
        wrong: tells what was not as it must be.
        lost: rows that tables lack.
        doubled: rows that tables have too many.
        recovered: seconds from the end of the fault until all records of that moment were read. `None`: they
            were not, or the fault ends the job for good.
        seconds: the length of the case.
        seen: what was seen of the fault.
    """

    landed: bool
    wrong: tuple[str, ...] = ()
    lost: int = 0
    doubled: int = 0
    recovered: float | None = None
    seconds: float = 0.0
    seen: dict[str, Any] = field(default_factory=dict)

    @property
    def is_right(self) -> bool:
        return self.landed and not self.wrong


def run_case(rig: Rig, fault: Fault, seed: str, healed_seconds: float = HEALED_SECONDS) -> Outcome:
    """Inject a fault into a rig whose job works, and judge what comes of it.

    Args:
        rig: the rig.
        fault: the fault.
        seed: equal seeds give equal faults, as far as processes can be steered.
        healed_seconds: the longest time from the end of the fault until the job has caught up.
    """
    began, marker = time.monotonic(), Marker()
    chance = random.Random(seed)
    judged, recovered = Verdict(), None
    rig.feed.resume()
    try:
        before = rig.batches()
        assert rig.wait(lambda: rig.batches() > before + 1, START_SECONDS), "the job does not begin"
        ends = len(rig.ends)
        with fault.inject(rig, chance, marker):
            if fault.refused is not None:
                marker.seen["refused"] = require_refused(rig, fault.refused)
            else:
                rig.stay(chance.uniform(*fault.seconds))
        if fault.refused is None:
            recovered = caught_up(rig, healed_seconds)
            _require_fate(rig, fault, ends)
            judged = settled(rig, healed_seconds)
    except AssertionError as error:
        judged = Verdict((str(error),))
    except Exception as error:  # the other cases are to run, whatever has happened in this one
        judged = Verdict((f"{type(error).__name__}: {error}"[:500],))
    return Outcome(
        marker.landed,
        judged.wrong,
        judged.lost,
        judged.doubled,
        recovered,
        round(time.monotonic() - began, 1),
        marker.seen,
    )


def caught_up(rig: Rig, seconds: float) -> float:
    """Wait until the job has read all that is acknowledged now; return the seconds that it took."""
    began, ends = time.monotonic(), rig.feed.ends()
    before = rig.batches()
    read = rig.wait(lambda: rig.has_read(ends) and rig.batches() > before, seconds)
    assert read, f"no progress within {seconds:.0f} s: {rig.ends[-1:]}"
    return round(time.monotonic() - began, 1)


def settled(rig: Rig, seconds: float) -> Verdict:
    """Hold the feed back, wait until nothing is left to do, and judge the tables."""
    rig.feed.pause()
    assert rig.wait(rig.is_idle, seconds), f"records are left after {seconds:.0f} s without new ones"
    return verdict(rig)


def _require_fate(rig: Rig, fault: Fault, ends: int) -> None:
    count = len(rig.ends) - ends
    if fault.job is Job.STAYS:
        assert not count, f"the job ended: {rig.ends[ends:]}"
    elif fault.job is Job.ENDS:
        assert count, "the job did not end"
    told = [end for end in rig.ends[ends:] if end.code > 0 and not end.error.strip("[]'\" ")]
    assert not told, f"the job ended without a word: {told}"


def require_refused(rig: Rig, error: str) -> str:
    """Require that the job ends with an error, and that its next start does, too; return the error."""
    with rig.unattended():
        for _ in range(2):
            assert rig.wait(lambda: not rig.job.running, _REFUSED_SECONDS), "the job goes on"
            end = rig.end()
            is_told = end.code > 0 and re.search(error, end.error)
            assert is_told, f"its end is another one: {end}"
            rig.start_job()
        rig.job.kill()
    return end.error[:300]
