"""`make faults`: run many seeds on all cores, or one seed with its trace; shrink a failing one."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from endmark_benchmarks.harness.origin import origin
from simulation.campaign import Tally, in_processes
from simulation.case import CASES, Case, written
from simulation.run import Schedule
from simulation.shrink import shrunk
from simulation.world import SEEDS_OF_A_WORLD, world_of

_PROGRESS_SECONDS = 10.0


def repeat(seed: int) -> str:
    """The command that runs a seed alone."""
    return f'make faults ARGS="--seeds 1 --seed {seed}"'


def main() -> int:
    asked = argparse.ArgumentParser(prog="make faults", description=__doc__)
    asked.add_argument("--seeds", type=int, default=2_000, help="how many seeds to run")
    asked.add_argument("--seed", type=int, default=0, help="the first seed")
    asked.add_argument("--minutes", type=float, help="stop after so many minutes")
    asked.add_argument("--result", type=Path, help="write the figures to this file")
    asked.add_argument("--shrink", metavar="NAME", help="with one seed: keep it, shrunk, as a case")
    given = asked.parse_args()
    if given.seeds == 1:
        return _alone(given.seed, given.shrink)
    # The load of the machine is to be that of others.
    came = origin()
    started = time.monotonic()
    found = _many(given.seed, given.seeds, given.minutes)
    seconds = time.monotonic() - started
    if given.result is not None:
        report = {"parts": [_report(came, found, given.seed, seconds)]}
        given.result.write_text(json.dumps(report, indent=1) + "\n")
    for seed, failure in sorted(found.failures.items()):
        print(f"seed {seed}: {failure.splitlines()[-1][:300]}\n  {repeat(seed)}")
    print(_line(found, seconds))
    return int(bool(found.failures))


def _alone(seed: int, keep_as: str | None) -> int:
    case = Case(world_of(seed // SEEDS_OF_A_WORLD), Schedule.of(seed))
    outcome, verdict = case.judged()
    print("\n".join(outcome.trace))
    print(f"seed {seed}: trace {outcome.trace_hash}, {len(outcome.injected)} faults")
    if verdict is None:
        print("right")
        return 0
    print(verdict.text)
    if keep_as is not None:
        small = shrunk(case, 300)
        file = CASES / f"{keep_as}.json"
        file.write_text(written(small))
        print(f"{len(small.world.records)} records and faults {small.schedule.only} are in {file}")
    return 1


def _many(first: int, count: int, minutes: float | None) -> Tally:
    found, started = Tally(), time.monotonic()
    said = started
    for part in in_processes(first, count):
        found.add(part)
        for seed in sorted(part.failures):
            print(f"seed {seed} fails: {repeat(seed)}", flush=True)
        now = time.monotonic()
        if now - said >= _PROGRESS_SECONDS:
            said = now
            print(_line(found, now - started), flush=True)
        if minutes is not None and now - started > 60 * minutes:
            break
    return found


def _line(found: Tally, seconds: float) -> str:
    return (
        f"{found.seeds} seeds, {found.faults.total()} faults, {len(found.failures)} failures, "
        f"{seconds:.0f} s, {60 * found.seeds / seconds:.0f} seeds a minute"
    )


def _report(came: dict[str, object], found: Tally, first: int, seconds: float) -> dict[str, object]:
    figures = {name: dict(value) if isinstance(value, dict) else value for name, value in vars(found).items()}
    speed = {"seconds": round(seconds), "seeds_per_minute": round(60 * found.seeds / seconds)}
    return {**came, "first_seed": first, **speed, **figures}


if __name__ == "__main__":
    sys.exit(main())
