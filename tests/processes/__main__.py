"""`make faults-processes`: break the processes around real jobs, and require that each job recovers."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

from endmark_benchmarks.harness.origin import origin
from processes.campaign import Case, cases
from processes.faults import FAULTS
from processes.rig import NAMES, OUTSIDE, mounts


def main() -> int:
    asked = argparse.ArgumentParser(prog="make faults-processes", description=__doc__)
    asked.add_argument("--seeds", type=int, default=1, help="how many seeds to run")
    asked.add_argument("--seed", type=int, default=0, help="the first seed")
    asked.add_argument("--pipeline", choices=NAMES, help="run this pipeline alone")
    asked.add_argument(
        "--fault", choices=FAULTS, action="append", help="inject this fault alone; may be repeated"
    )
    asked.add_argument("--result", type=Path, help="write the figures to this file")
    given = asked.parse_args()
    came, began = origin(), time.monotonic()
    names = NAMES if given.pipeline is None else (given.pipeline,)
    done: list[Case] = []
    for seed in range(given.seed, given.seed + given.seeds):
        for name in names:
            for case in cases(name, seed, given.fault or list(FAULTS)):
                done.append(case)
                _tell(case)
                if given.result is not None:
                    seconds = round(time.monotonic() - began)
                    _write(given.result, {**came, "seconds": seconds}, done)
    wrong = [case for case in done if not case.outcome.is_right]
    for pipeline, seed, fault, outcome in wrong:
        print(f"make faults-processes ARGS='--seed {seed} --pipeline {pipeline} --fault \"{fault}\"'")
        print("  " + ("; ".join(outcome.wrong) or f"the fault did not land: {outcome.seen}")[:500])
    print(f"{len(done)} cases, {len(wrong)} wrong or invalid, {time.monotonic() - began:.0f} s")
    return int(bool(wrong))


def _tell(case: Case) -> None:
    outcome = case.outcome
    said = "; ".join(outcome.wrong) or ("right" if outcome.landed else "invalid: the fault did not land")
    back = "" if outcome.recovered is None else f", recovered in {outcome.recovered} s"
    print(
        f"seed {case.seed}, {case.pipeline}, {case.fault}: {said[:300]}{back}, {outcome.seconds} s, {outcome.seen}",
        flush=True,
    )


def _write(file: Path, head: dict[str, object], done: list[Case]) -> None:
    runs = [
        {"pipeline": case.pipeline, "seed": case.seed, "fault": case.fault, **asdict(case.outcome)}
        for case in done
    ]
    file.write_text(json.dumps({**head, "runs": runs}, indent=1) + "\n")


def with_own_mounts() -> None:
    """Go on in a mount namespace of our own, so that disks of any size can be made; stay here if there is none."""
    if OUTSIDE not in os.environ:
        os.environ[OUTSIDE] = mounts()
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        command = ["unshare", "--mount", *user, sys.executable, "-m", "processes", *sys.argv[1:]]
        os.execvp("unshare", command)  # noqa: S606  # this program again


if __name__ == "__main__":
    with_own_mounts()
    sys.exit(main())
