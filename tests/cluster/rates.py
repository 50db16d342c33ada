"""Records a second of the auction on a Spark standalone cluster, by one executor and by two:
`make bench-cluster`.

Each executor runs one task at a time. Driver, broker and database are on the same machine, so two executors
are faster than one by what these, and Python beside the JVM, leave of its cores.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cluster.packaged_job import arguments
from cluster.standalone import PackagedCluster
from endmark_benchmarks.contenders.job import Job
from endmark_benchmarks.harness.contest import Digest, Rates, interleaved
from endmark_benchmarks.harness.delta import digests
from endmark_benchmarks.harness.job_contest import BatchTime, rate, samples_of
from endmark_benchmarks.harness.origin import origin
from endmark_benchmarks.workloads.auction import MEASURED, recorded, workload
from endmark_benchmarks.workloads.recorded import Servers, running
from support.cluster_page import RATES, RESULTS, write_page

RECORDINGS = Path(__file__).parents[2] / "var" / "bench"
FEED = workload(seconds=75, rate=20_000, sellers=500_000)
BATCH_RECORDS = 100_000
REPEATS = 2
_SECONDS = 300.0


def measure(cluster: PackagedCluster, servers: Servers, directory: Path) -> dict[str, Any]:
    """Rates of both, in turn; all runs must give the same tables."""
    rates: dict[int, list[float]] = defaultdict(list)
    expected: list[Digest] = []
    for repeat, executors in interleaved((1, 2), REPEATS):
        job = Job(directory / f"{repeat}-{executors}", servers)
        job.directory.mkdir()
        settings = [*MEASURED.settings, f"batch.records={BATCH_RECORDS}", "batch.every=0s"]
        more = ["--available-now", *(f"--set={setting}" for setting in settings)]
        place = servers.bootstrap, job.warehouse, job.directory / "checkpoint", job.ops_url
        process = cluster.submit(*arguments(*place, *more), executors=executors)
        process.wait_done(_SECONDS)
        rates[executors].append(rate(BatchTime.of(each) for each in samples_of(job)))
        found = digests(job.pipeline, job.warehouse)
        expected = expected or found
        assert found == expected, f"{executors} executors: {found}, and not {expected}"
        print(f"{executors} executors: {rates[executors][-1]:,.0f} records/s", flush=True)
    made = {executors: Rates.of(each) for executors, each in rates.items()}
    return {
        str(executors): {**asdict(each), "ratio": round(each.median / made[1].median, 2)}
        for executors, each in made.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path, help="what infra/package.sh has made")
    package: Path = parser.parse_args().package

    def say(text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)

    with running(recorded(RECORDINGS, FEED), say) as servers, tempfile.TemporaryDirectory() as scratch:
        report = {**origin(), "options": {"records": FEED.ticks, "batch_records": BATCH_RECORDS}}
        os.environ["ENDMARK_RELATION_URL"] = servers.relation_url
        with PackagedCluster(Path(scratch), package.resolve()) as cluster:
            for _ in range(2):
                cluster.start_worker()
            report["executors"] = measure(cluster, servers, Path(scratch))
    (RESULTS / f"{RATES}.json").write_text(json.dumps(report, indent=1) + "\n")
    write_page()


if __name__ == "__main__":
    main()
