"""Sows faults into copies of the product and tells which seed of the simulation notices each of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from simulation.campaign import by_world, workshop
from simulation.run import Run, Schedule
from simulation.world import SEEDS_OF_A_WORLD, world_of
from support.mutation import ROOT, Mutant, load, sown

MUTANTS = Path(__file__).with_name("mutants.yaml")
PACKAGES = ROOT / "jobs/endmark", ROOT / "tests/simulation"
SEEDS = 500


def first_failure(count: int) -> tuple[int, str] | None:
    """Return a seed below `count` that fails, and what is wrong; `None` if none fails.

    All worlds come with two of their seeds before any comes with further ones.
    """
    for part in range(0, SEEDS_OF_A_WORLD, 2):
        for seeds in by_world(0, count):
            with workshop(world_of(seeds[0] // SEEDS_OF_A_WORLD)) as (job, oracle):
                for seed in seeds[part : part + 2]:
                    verdict = oracle.verdict(Run(job, Schedule.of(seed)).outcome())
                    if verdict is not None:
                        return seed, verdict.text
    return None


def noticed(mutant: Mutant) -> tuple[int, str] | None:
    """Run seeds on a copy of the sources with a fault; return what `first_failure` finds there."""
    with sown(mutant, PACKAGES) as sources:
        program = "import json; from simulation.mutants import first_failure; "
        program += f"print(json.dumps(first_failure({SEEDS})))"
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=sources,
            env={**os.environ, "PYTHONPATH": f"{sources}{os.pathsep}{ROOT / 'tests'}"},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        return 0, done.stderr.strip().splitlines()[-1]
    found: tuple[int, str] | None = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    wanted = sys.argv[1:]
    survivors = 0
    for mutant in load(MUTANTS):
        if wanted and not any(word in mutant.name for word in wanted):
            continue
        started = time.monotonic()
        found = noticed(mutant)
        survivors += found is None
        by = "NOT NOTICED" if found is None else f"seed {found[0]}: {found[1].splitlines()[0][:90]}"
        print(f"{time.monotonic() - started:6.0f} s, {mutant.name}: {by}", flush=True)
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
