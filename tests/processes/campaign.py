"""Runs cases: all faults in a random order on one rig after the other."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from processes.case import HEALED_SECONDS, Outcome, run_case, settled
from processes.faults import CONTROL, FAULTS
from processes.oracle import rows_in_state, told_secrets
from processes.rig import Rig, own_mounts

_TRIES = 3  # of a fault that does not land
# In place of a fault's name: the last verdict on a rig, and a walk.
END, WALK = "end", "walk"


class Case(NamedTuple):
    """A case that was run."""

    pipeline: str
    seed: int
    fault: str
    outcome: Outcome


def fitting(name: str, faults: Sequence[str]) -> list[str]:
    """Return those of some faults that a pipeline and this machine can have."""
    return [
        fault
        for fault in faults
        if name in (FAULTS[fault].pipelines or (name,)) and (own_mounts() or not FAULTS[fault].disk)
    ]


def cases(name: str, seed: int, faults: Sequence[str], within: float = HEALED_SECONDS) -> Iterator[Case]:
    """Run faults on a pipeline, the control first and those that end a job for good last.

    A rig is used until a case fails, and judged once more in the end. A fault that misses is tried again.

    Args:
        name: the name of the pipeline.
        seed: equal seeds give equal records, and equal faults.
        faults: the names of the faults.
        within: the longest time from the end of a fault until the job has caught up, in seconds.
    """
    order = fitting(name, faults)
    random.Random(f"{name} {seed}").shuffle(order)
    order.sort(key=lambda fault: (FAULTS[fault].refused is not None, fault != CONTROL))
    while order:
        with (
            tempfile.TemporaryDirectory(prefix="endmark-processes-") as scratch,
            Rig(Path(scratch), name, seed) as rig,
        ):
            yield from _on(rig, order, within)


def _on(rig: Rig, order: list[str], within: float) -> Iterator[Case]:
    """Run the next cases on a rig, and take them from the list."""
    outcome, fault, tries = Outcome(landed=True), FAULTS[CONTROL], 0
    while order and not outcome.wrong and fault.refused is None:
        name = order[0]
        fault, tries = FAULTS[name], tries + 1
        outcome = run_case(rig, fault, f"{rig.name} {rig.seed} {name} {tries}", within)
        yield Case(rig.name, rig.seed, name, outcome)
        if outcome.landed or outcome.wrong or tries == _TRIES:
            tries = 0
            order.pop(0)
    if not outcome.wrong and fault.refused is None:
        yield Case(rig.name, rig.seed, END, ended(rig))


def ended(rig: Rig) -> Outcome:
    """Close all keys, and require that nothing is left in state and no secret is told."""
    try:
        rig.feed.end()
        assert rig.wait(rig.is_idle, HEALED_SECONDS), "the job does not come to its end"
        judged = settled(rig, HEALED_SECONDS)
        wrong = (*judged.wrong, *rows_in_state(rig), *told_secrets(rig.directory, rig.database.url))
    except AssertionError as error:
        return Outcome(landed=True, wrong=(str(error),))
    return Outcome(True, wrong, judged.lost, judged.doubled)
