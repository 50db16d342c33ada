"""Seeds of the simulation: all are right, a seed repeats, and a failure becomes a small case."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import TaskContext

from endmark.pipeline import Pipeline
from endmark.pipeline.tables import final_role, running_role
from simulation import campaign
from simulation.campaign import Tally, by_world, tally, workshop
from simulation.case import CASES, Case, read, written
from simulation.clock import Clock
from simulation.expressions import Expressions
from simulation.mutants import MUTANTS, PACKAGES
from simulation.run import Run, Schedule
from simulation.shrink import shrunk
from simulation.state_store import StateStore
from simulation.world import SEEDS_OF_A_WORLD, World, world_of
from support.mutation import Mutant, load
from support.verify_world import bid, close, item, make_pipeline

CPU_SECONDS = 20.0
SMALL = 25  # a world with few records and three steps
REPEATED = 4  # seeds of a world


def test_seeds_are_right() -> None:
    """The seeds from 0 on, as many as take 20 s of one core; they meet faults of most kinds."""
    found = Tally()
    until = time.process_time() + CPU_SECONDS
    for seeds in by_world(0, 10_000):
        found.add(tally(seeds))
        if time.process_time() > until:
            break

    assert found.failures == {}, 'repeat one with: make faults ARGS="--seeds 1 --seed N"'
    assert len(found.faults) > 20


def test_a_campaign_goes_on_in_new_processes() -> None:
    first = SEEDS_OF_A_WORLD - 1
    with patch.object(campaign, "_PORTIONS", 1):
        found = [part.seeds for part in campaign.in_processes(first, 2)]

    assert found == [1, 1]


@pytest.mark.parametrize("number", [0, SMALL])
def test_a_seed_repeats(number: int) -> None:
    """The trace of a seed is the same in its second run: each planned batch, fault, task and file."""
    with workshop(world_of(number)) as (job, _):
        seeds = range(number * SEEDS_OF_A_WORLD, number * SEEDS_OF_A_WORLD + REPEATED)
        first, second = ([Run(job, Schedule.of(seed)).outcome() for seed in seeds] for _ in range(2))

    assert [each.trace for each in first] == [each.trace for each in second]
    assert len({each.trace_hash for each in first}) == REPEATED


# Draws numbers before and after a module with many constants is loaded. It has a process of its own, since
# Hypothesis keeps these constants.
DRAWN_TWICE = """
from hypothesis import strategies as st
from support.cases import examples

numbers = st.integers(0, 1 << 40)
before = examples(numbers, 100, 1)
import loaded_later
assert examples(numbers, 100, 1) == before
"""


def test_a_world_is_the_same_whatever_is_loaded(tmp_path: Path) -> None:
    """Hypothesis draws constants of loaded modules: a seed alone had another world than in a campaign."""
    (tmp_path / "loaded_later.py").write_text(f"NUMBERS = {list(range(1 << 39, (1 << 39) + 1000))}\n")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    subprocess.run([sys.executable, "-c", DRAWN_TWICE], env=os.environ | {"PYTHONPATH": path}, check=True)


def test_an_expression_is_asked_once_about_a_text() -> None:
    asked, texts = [], pa.array([b"one", b"two", None, b"one"])

    def match(values: pa.Array, pattern: str) -> pa.Array:
        asked.append(values.to_pylist())
        return found(values, pattern)

    found = pc.match_substring_regex
    with patch.object(pc, "match_substring_regex", match):
        expressions = Expressions()
        with expressions.remembered():
            first = pc.match_substring_regex(texts, "^o")
            again = pc.match_substring_regex(texts.slice(1), "^o")
            other = pc.match_substring_regex(texts, "^t")

    assert first.to_pylist() == [True, False, None, True]
    assert again.to_pylist() == [False, None, True]
    assert other.to_pylist() == [False, True, None, False]
    assert asked == [[b"one", b"two", None], [b"one", b"two", None]]


def test_other_threads_have_the_real_time() -> None:
    """They do not move the simulated clock: a seed did not repeat behind tests that had left threads."""
    clock, seen = Clock(), list[float]()
    before = clock.now
    with clock.running():
        other = threading.Thread(target=lambda: seen.extend((time.time(), time.monotonic())))
        other.start()
        other.join()
        assert clock.now == before
        assert time.time() == clock.seconds != seen[0]


def test_a_run_without_faults_has_none() -> None:
    """The control: the same batches, without a fault."""
    outcome, verdict = Case(world_of(SMALL), Schedule(0)).judged()

    assert verdict is None
    assert outcome.injected == {}
    assert outcome.batches > 1
    assert TaskContext.get() is None, "a later test of this process could not start a Spark session"


def test_groups_of_groups_behind_groups_by_another_key() -> None:
    """Final groups pass through the stage of the other groups, and their table has them once."""
    document = make_pipeline(windows=(None, None), measures={"rows": "count"}).model_dump(by_alias=True)
    document["steps"] |= {
        "by_seller": {"from": "matched", "aggregate": {"by": "items.seller_id", "measures": {"n": "count"}}},
        "habits": {"from": "by_key", "aggregate": {"by": "rows", "measures": {"keys": "count"}}},
    }
    document["tables"] |= {"by_seller": {"mode": "upsert"}, "habits": {"mode": "upsert"}}
    records = [item(0, 0), bid(0, 1), close("items", 0), close("bids", 0)]
    world = World(Pipeline.model_validate(document), {"all.items": 1, "all.bids": 1}, records)

    outcome, verdict = Case(world, Schedule(0)).judged()

    assert verdict is None
    assert [row["keys"] for row in outcome.tables[running_role("habits")]] == [1]
    assert len(outcome.tables[final_role("by_key")]) == 1


@contextmanager
def forgetful() -> Iterator[None]:
    """A store that never takes the state of a batch."""
    with patch.object(StateStore, "commit", lambda store, attempts: None):
        yield


def test_a_failure_becomes_a_small_case(tmp_path: Path) -> None:
    case = Case(world_of(SMALL), Schedule.of(SMALL * SEEDS_OF_A_WORLD))
    with forgetful():
        assert case.judged()[1] is not None
        small = shrunk(case, 60)
        assert small.judged()[1] is not None
    file = tmp_path / "forgetful.json"
    file.write_text(written(small))

    assert len(small.world.records) < len(case.world.records)
    assert small.schedule.only == ()
    assert read(file) == small._replace(world=replace(small.world, noise={}))
    assert small.judged()[1] is None


@pytest.mark.parametrize("file", sorted(CASES.glob("*.json")), ids=lambda file: str(file.stem))
def test_cases_are_right(file: Path) -> None:
    assert read(file).judged()[1] is None


@pytest.mark.parametrize("mutant", load(MUTANTS), ids=lambda mutant: mutant.name)
def test_a_fault_fits_the_source(mutant: Mutant) -> None:
    """The line that a sown fault replaces is there, once. `python -m simulation.mutants` sows them."""
    [file] = [found for root in PACKAGES if (found := root.parent / mutant.file).exists()]
    assert file.read_text().count(mutant.old) == 1
    assert mutant.new != mutant.old
