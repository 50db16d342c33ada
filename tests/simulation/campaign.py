"""Runs many seeds: their verdicts, and how many faults of each kind they met."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from endmark.verify import session
from simulation.job import Job
from simulation.oracle import Oracle, Verdict
from simulation.run import Outcome, Run, Schedule
from simulation.world import SEEDS_OF_A_WORLD, World, world_of

_PORTIONS = 200  # of seeds, for one set of processes
_IN_MEMORY = Path("/dev/shm")  # noqa: S108


@dataclass
class Tally:
    """The counts of runs, faults and failures of some seeds.

    Args:
        seeds: the number of seeds.
        batches: the batches of all runs.
        records: the records of all runs.
        recomputed: the runs that were held against DuckDB; the others had tables that were right before.
        faults: the faults that happened, by kind.
        runs: the runs with a fault of each kind.
        failed: the failed runs with a fault of each kind.
        lost: the rows that tables lacked in these.
        doubled: the rows that tables had too often in these.
        failures: what was wrong, by seed.
    """

    seeds: int = 0
    batches: int = 0
    records: int = 0
    recomputed: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    doubled: Counter[str] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Add the figures of other seeds."""
        for name, value in vars(other).items():
            if isinstance(value, int):
                setattr(self, name, getattr(self, name) + value)
            else:
                getattr(self, name).update(value)

    def take(self, seed: int, world: World, outcome: Outcome, verdict: Verdict | None) -> None:
        """Count one run."""
        self.seeds += 1
        self.batches += outcome.batches
        self.records += len(world.records)
        met = Counter(outcome.injected.values()) + Counter(world.noise)
        self.faults += met
        self.runs.update(met.keys())
        if verdict is not None:
            self.failures[seed] = verdict.text
            self.failed.update(met.keys())
            self.lost.update(dict.fromkeys(met, verdict.lost))
            self.doubled.update(dict.fromkeys(met, verdict.doubled))


@contextmanager
def workshop(world: World) -> Iterator[tuple[Job, Oracle]]:
    """The job of a world, in a directory of its own, and the oracle of its runs."""
    where = _IN_MEMORY if _IN_MEMORY.is_dir() else None
    one_thread = patch.object(session, "THREADS", 1)  # each core has a process of its own
    with one_thread, tempfile.TemporaryDirectory(prefix="endmark-simulation-", dir=where) as directory:
        yield Job(world, Path(directory)), Oracle(world)


def tally(seeds: Iterable[int]) -> Tally:
    """Run some seeds of one world."""
    seeds = list(seeds)
    found = Tally()
    world = world_of(seeds[0] // SEEDS_OF_A_WORLD)
    with workshop(world) as (job, oracle):
        for seed in seeds:
            outcome = Run(job, Schedule.of(seed)).outcome()
            found.take(seed, world, outcome, oracle.verdict(outcome))
        found.recomputed = oracle.recomputed
    return found


def by_world(first: int, count: int) -> Iterator[range]:
    """Yield the seeds from the first one on, in portions that share a world."""
    at = first
    while at < first + count:
        end = min(first + count, (at // SEEDS_OF_A_WORLD + 1) * SEEDS_OF_A_WORLD)
        yield range(at, end)
        at = end


def in_processes(first: int, count: int) -> Iterator[Tally]:
    """Yield the figures of each portion of seeds; each core runs portions of its own.

    All processes are replaced after some portions, since they grow. Python's `max_tasks_per_child` is not for
    that: in 3.11, a campaign was without processes after 2,000 seeds, and waited for ever.
    """
    context, waiting = multiprocessing.get_context("spawn"), by_world(first, count)
    while some := list(itertools.islice(waiting, _PORTIONS)):
        with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
            portions = [pool.submit(_portion, seeds) for seeds in some]
            try:
                for done in as_completed(portions):
                    yield done.result()
            finally:  # whoever has seen enough waits for the portions that have begun
                pool.shutdown(cancel_futures=True)


def _portion(seeds: range) -> Tally:
    try:
        return tally(seeds)
    except Exception:  # a world that cannot be run is a finding, too, and the others go on
        return Tally(seeds=len(seeds), failures=dict.fromkeys(seeds, traceback.format_exc()))
