"""`make faults-processes`: break the processes around real jobs, and require that each job recovers."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from endmark_benchmarks.harness.origin import origin
from processes.campaign import WALK, Case, cases
from processes.case import HEALED_SECONDS
from processes.faults import FAULTS
from processes.rig import NAMES, OUTSIDE, Rig, mounts
from processes.soak import RATE, soak
from processes.walk import Walk


def main() -> int:
    asked = argparse.ArgumentParser(prog="make faults-processes", description=__doc__)
    asked.add_argument("--seeds", type=int, default=1, help="how many seeds to run")
    asked.add_argument("--seed", type=int, default=0, help="the first seed")
    asked.add_argument("--pipeline", choices=NAMES, help="run this pipeline alone")
    asked.add_argument("--fault", choices=FAULTS, action="append", help="inject this fault; may be repeated")
    asked.add_argument(
        "--walk", type=int, metavar="N", help="do N random actions instead, several faults at once"
    )
    asked.add_argument("--soak", type=float, metavar="HOURS", help="run for hours instead; nothing may grow")
    asked.add_argument(
        "--within", type=float, default=HEALED_SECONDS, help="seconds to catch up after a fault"
    )
    asked.add_argument("--result", type=Path, help="write the figures to this file")
    asked.add_argument("--add", action="store_true", help="add to the parts that the file has")
    given = asked.parse_args()
    head, began, loads = origin() | {"within": given.within}, time.monotonic(), []
    earlier = json.loads(given.result.read_text())["parts"] if given.add else []

    def keep(report: dict[str, Any]) -> None:
        if given.result is not None:
            loads.append(round(os.getloadavg()[0], 1))
            told = {"seconds": round(time.monotonic() - began), "loads": [min(loads), max(loads)]}
            # Each part keeps its own commit, load and limit: a later part may be of other code.
            parts = [*earlier, {**head, **told, **report}]
            given.result.write_text(json.dumps({"parts": parts}, indent=1) + "\n")

    if given.soak is not None:
        with _rig(given.pipeline or NAMES[0], given.seed, RATE) as rig:
            report = soak(rig, given.soak, given.seed, keep)
        keep(report)
        print(json.dumps({name: report[name] for name in ("highest", "slopes", "wrong")}, indent=1))
        return int(bool(report["wrong"]))
    done: list[Case] = []
    for case in _cases(given):
        done.append(case)
        _tell(case)
        keep({"runs": [{**case._asdict(), "outcome": asdict(case.outcome)} for case in done]})
    wrong = [case for case in done if not case.outcome.is_right]
    for pipeline, seed, fault, outcome in wrong:
        part = f"--walk {given.walk}" if fault == WALK else f'--fault "{fault}"'
        print(f"make faults-processes ARGS='--seed {seed} --pipeline {pipeline} {part}'")
        print("  " + ("; ".join(outcome.wrong) or f"the fault did not land: {outcome.seen}")[:500])
    print(f"{len(done)} cases, {len(wrong)} wrong or invalid, {time.monotonic() - began:.0f} s")
    return int(bool(wrong))


def _cases(given: argparse.Namespace) -> Iterator[Case]:
    names = NAMES if given.pipeline is None else (given.pipeline,)
    for seed in range(given.seed, given.seed + given.seeds):
        for name in names:
            if given.walk is None:
                yield from cases(name, seed, given.fault or list(FAULTS), given.within)
            else:
                with _rig(name, seed) as rig:
                    yield Case(name, seed, WALK, Walk(rig, seed, given.within).run(given.walk))


@contextmanager
def _rig(name: str, seed: int, rate: float | None = None) -> Iterator[Rig]:
    """Start a rig; one with a rate of its own has the machine's disk."""
    with tempfile.TemporaryDirectory(prefix="endmark-processes-") as scratch:
        place = Path(scratch)
        with Rig(place, name, seed) if rate is None else Rig(place, name, seed, rate, has_disks=False) as rig:
            yield rig


def _tell(case: Case) -> None:
    outcome = case.outcome
    said = "; ".join(outcome.wrong) or ("right" if outcome.landed else "invalid: the fault did not land")
    back = "" if outcome.recovered is None else f", recovered in {outcome.recovered} s"
    where = f"seed {case.seed}, {case.pipeline}, {case.fault}"
    print(f"{where}: {said[:300]}{back}, {outcome.seconds} s, {outcome.seen}", flush=True)


def with_own_mounts() -> None:
    """Start this program again in a mount namespace of its own, where it can make small disks."""
    if OUTSIDE not in os.environ:
        os.environ[OUTSIDE] = mounts()
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        command = ["unshare", "--mount", *user, sys.executable, "-m", "processes", *sys.argv[1:]]
        os.execvp("unshare", command)  # noqa: S606  # this program again


if __name__ == "__main__":
    with_own_mounts()
    sys.exit(main())
