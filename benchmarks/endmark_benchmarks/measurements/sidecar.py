"""The cost of a sidecar that answers 200 requests a second to its job: rates of the auction with and without.

Both read the same topics, filled before. The requests are what dashboards and Prometheus ask for; they are
sent from this machine, at times of their own however long answers take, so their work is part of the cost.
"""

from __future__ import annotations

import json
import socket
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import count
from pathlib import Path
from statistics import quantiles
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import typer

from endmark_benchmarks.contenders.job import DEADLINE_SECONDS, Job, wait_until
from endmark_benchmarks.harness.contest import Rates, compared, interleaved
from endmark_benchmarks.harness.job_contest import DRIVER_MEMORY, BatchTime, rate, samples_of
from endmark_benchmarks.harness.origin import origin
from endmark_benchmarks.workloads.auction import recorded, workload
from endmark_benchmarks.workloads.recorded import Servers, running
from support.ops_sidecar import Sidecar

RESULTS = Path(__file__).parents[2] / "results" / "sidecar.json"
ALONE, ASKED = "alone", "asked"
ASKERS = 8


def _paths(pipeline: str) -> tuple[str, ...]:
    own = f"/api/pipelines/{pipeline}"
    return (f"{own}/status", "/metrics", f"{own}/batches?limit=2", f"{own}/status", own)


class Asker(threading.Thread):
    """Sends a request every `interval` seconds, until `stopped`.

    Attributes:
        seconds: seconds that answers took, from the time at which the request was due.
        refused: the number of answers that were errors.

    Args:
        url: the address that is asked.
        paths: what is asked for by turns.
        interval: seconds between two requests.
        stopped: ends it.
    """

    def __init__(self, url: str, paths: Sequence[str], interval: float, stopped: threading.Event) -> None:
        super().__init__(daemon=True)
        self.seconds: list[float] = []
        self.refused = 0
        self._at = urlsplit(url).netloc
        self._paths = paths
        self._interval = interval
        self._stopped = stopped

    def run(self) -> None:
        host, _, port = self._at.partition(":")
        with (
            socket.create_connection((host, int(port)), timeout=30) as connection,
            connection.makefile("rb") as answers,
        ):
            started = time.monotonic()
            for number in count():
                due = started + number * self._interval
                if self._stopped.wait(max(0.0, due - time.monotonic())):
                    return
                path = self._paths[number % len(self._paths)]
                connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {self._at}\r\n\r\n".encode())
                self.refused += not _read(answers).startswith(b"HTTP/1.1 200 ")
                self.seconds.append(time.monotonic() - due)


def _read(answers: BinaryIO) -> bytes:
    """The first line of an answer, all of which is read; by `http.client`, that would cost half of what the
    sidecar does."""
    first = answers.readline()
    length = 0
    while (line := answers.readline()).strip():
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    answers.read(length)
    return first


@contextmanager
def asked(job: Job, pipeline: str, requests: float, found: dict[str, float]) -> Iterator[None]:
    """Ask the sidecar of a job for its pages while the body runs.

    Args:
        job: the job.
        pipeline: the pipeline's name.
        requests: requests a second.
        found: gets figures of the sidecar.
    """
    sidecar = Sidecar(job.ops_url)
    sidecar.start()
    stopped = threading.Event()
    askers = [Asker(sidecar.url, _paths(pipeline), ASKERS / requests, stopped) for _ in range(ASKERS)]
    used, started = sidecar.cpu_seconds, time.monotonic()
    for asker in askers:
        asker.start()
    try:
        yield
    finally:
        stopped.set()
        for asker in askers:
            asker.join()
        seconds = time.monotonic() - started
        taken = quantiles((each for asker in askers for each in asker.seconds), n=100)
        found["requests_per_second"] = sum(len(asker.seconds) for asker in askers) / seconds
        found["refused"] = sum(asker.refused for asker in askers)
        found["p50_milliseconds"], found["p99_milliseconds"] = 1e3 * taken[49], 1e3 * taken[98]
        found["sidecar_cores"] = (sidecar.cpu_seconds - used) / seconds
        sidecar.stop()


def run(servers: Servers, batch_records: int, requests: float | None) -> tuple[float, dict[str, float]]:
    """Run a job that reads all there is; return its records a second, and figures of the sidecar.

    Args:
        servers: the servers that hold the input.
        batch_records: records of a batch.
        requests: requests a second; `None` runs no sidecar.
    """
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="endmark-bench-") as work:
        job = Job(Path(work), servers)
        process = job.start(
            "--available-now",
            f"--set=batch.records={batch_records}",
            f"--driver-memory={DRIVER_MEMORY}",
        )
        wait_until(lambda: bool(job.batches()), process, every=0.2)
        with nullcontext() if requests is None else asked(job, job.pipeline.name, requests, found):
            process.wait_done(DEADLINE_SECONDS)
        return rate(map(BatchTime.of, samples_of(job))), found


def main(
    records: int = 1_500_000,
    batch_records: int = 150_000,
    sellers: int = 500_000,
    rate: float = 20_000.0,
    requests: float = 200.0,
    repeats: int = 5,
    results: Path = RESULTS,
) -> None:
    """Measure a job with and without a sidecar.

    Args:
        records: records of both topics.
        batch_records: records of a batch.
        sellers: rows of R.
        rate: records for each second of event time.
        requests: requests a second.
        repeats: runs of each.
        results: the directory of result files.
    """
    size = {"records": records, "batch_records": batch_records, "sellers": sellers, "repeats": repeats}
    options = size | {"rate": rate, "requests": requests}
    report: dict[str, Any] = {"bench": "sidecar", **origin(), "options": options}
    rates: dict[str, list[float]] = defaultdict(list)
    answers: list[dict[str, float]] = []
    auction = recorded(Path("var/bench"), workload(records / rate, rate, sellers))
    with running(auction, print) as servers:
        for repeat, name in interleaved((ALONE, ASKED), repeats):
            reached, found = run(servers, batch_records, requests if name == ASKED else None)
            rates[name].append(reached)
            answers += [found] if found else []
            print(f"{repeat + 1}: {name}: {reached:,.0f} records/s {found or ''}", flush=True)
    compare = compared({name: Rates.of(each) for name, each in rates.items()}, ALONE)
    report["cells"] = [{"title": f"auction, batches of {batch_records:,} records", "contenders": compare}]
    report["answers"] = answers
    results.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
