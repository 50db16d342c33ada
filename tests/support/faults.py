"""The faults of a run and their consequences for a job, kept in a result file for docs/cluster.md."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from endmark_benchmarks.harness.origin import origin
from support.cluster_page import RESULTS, write_page


@dataclass
class Fault:
    """Something that was taken away, what came of it, and the seconds until that was made good."""

    taken: str
    seen: str
    seconds: int = 0


class Faults:
    """Those of one run, in order.

    Args:
        name: of the result file and of the table in docs/cluster.md.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._faults: list[Fault] = []
        # Before the run, since the load is to be that of others.
        self._origin = {key: value for key, value in origin().items() if key != "versions"}

    @contextmanager
    def survived(self, taken: str, seen: str = "") -> Iterator[Fault]:
        """Around what takes something away and waits until the job has gone on."""
        fault = Fault(taken, seen)
        started = time.monotonic()
        with step(f"without {taken}"):
            yield fault
        fault.seconds = round(time.monotonic() - started)
        self._faults.append(fault)

    def keep(self) -> None:
        """Write the result file and the page, once what the job has written is verified."""
        report = {**self._origin, "faults": [asdict(fault) for fault in self._faults]}
        (RESULTS / f"{self._name}.json").write_text(json.dumps(report, indent=1) + "\n")
        write_page()


@contextmanager
def step(name: str) -> Iterator[None]:
    print(f"{name} ...", flush=True)
    started = time.monotonic()
    yield
    print(f"{name}: {time.monotonic() - started:.0f} s", flush=True)
