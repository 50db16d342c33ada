"""`make faults-files`: damage the files of jobs on every pipeline, in every way, for several seeds."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from damage.campaign import NAMES, benches
from damage.damages import KINDS
from endmark_benchmarks.harness.origin import origin


def main() -> int:
    asked = argparse.ArgumentParser(prog="make faults-files", description=__doc__)
    asked.add_argument("--seeds", type=int, default=3, help="how many seeds of records to run")
    asked.add_argument("--seed", type=int, default=0, help="the first seed")
    asked.add_argument("--pipeline", choices=NAMES, help="run this pipeline alone")
    asked.add_argument("--kind", choices=KINDS, action="append", help="do this damage; may be repeated")
    asked.add_argument("--result", type=Path, help="write the figures to this file")
    asked.add_argument("--add", action="store_true", help="add to the parts that the file has")
    given = asked.parse_args()
    came, began = origin(), time.monotonic()
    names = NAMES if given.pipeline is None else (given.pipeline,)
    kinds = list(KINDS) if given.kind is None else given.kind
    earlier = json.loads(given.result.read_text())["parts"] if given.add else []
    runs: dict[str, list[float]] = {kind: [] for kind in kinds}
    wrong: dict[str, int] = {}
    told: dict[str, str] = {}
    with (
        tempfile.TemporaryDirectory(prefix="endmark-damage-") as scratch,
        benches(Path(scratch), range(given.seed, given.seed + given.seeds)) as every,
    ):
        for seed, bench in every:
            for name in names:
                for kind in kinds:
                    outcome = bench.outcome(name, kind)
                    runs[kind].append(round(outcome.seconds, 1))
                    said = " ".join((outcome.wrong or outcome.error or "recovered").split())
                    print(f"seed {seed}, {name}, {kind}: {said[:300]}", flush=True)
                    if outcome.wrong is not None:
                        again = f'--seeds 1 --seed {seed} --pipeline {name} --kind "{kind}"'
                        wrong[kind] = wrong.get(kind, 0) + 1
                        told[f"make faults-files ARGS='{again}'"] = outcome.wrong
    seconds = round(time.monotonic() - began)
    part = {
        **came,
        "seconds": seconds,
        "pipelines": names,
        "seeds": given.seeds,
        "runs": runs,
        "wrong": wrong,
    }
    if given.result is not None:
        # Each part keeps its own commit and load: a later part may be of other code.
        given.result.write_text(json.dumps({"parts": [*earlier, part]}, indent=1) + "\n")
    for command, why in told.items():
        print(f"{command}\n  {why[:500]}")
    print(f"{sum(map(len, runs.values()))} runs, {len(told)} wrong, {seconds} s")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
