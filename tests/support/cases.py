"""How hard random tests try: the same cases in `make test`, more by `make oracle` and `make test-spark`."""

from __future__ import annotations

import os
import random
from math import ceil
from typing import TypeVar
from unittest.mock import patch

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture.providers import HypothesisProvider

T = TypeVar("T")

CASES = "ENDMARK_ORACLE_CASES"
SPARK_CASES = "ENDMARK_SPARK_CASES"
SPARK_SEED = "ENDMARK_SPARK_SEED"
IN_HASTE = "ENDMARK_ORACLE_IN_HASTE"  # a mutant's counterexample need not be small


def cases(usual: int, among: int = 1) -> settings:
    """Settings of a random test that runs `usual` cases or, if that is more, its share of what the
    environment asks for when an operator's cases are divided `among` several tests."""
    chosen = settings(
        max_examples=max(usual, ceil(int(os.environ.get(CASES, "0")) / among)),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    if IN_HASTE in os.environ:
        return settings(chosen, phases=[Phase.explicit, Phase.generate], database=None)
    return chosen


def spark_cases(usual: int) -> int:
    """How many cases of each kind a random test in Spark runs, which takes seconds for each."""
    return int(os.environ.get(SPARK_CASES, usual))


def drawn(strategy: st.SearchStrategy[T], count: int) -> tuple[list[T], int]:
    """Some examples and the seed that gives them again, for a test that runs several at once and is too slow
    to make a counterexample small."""
    usual = random.randrange(1 << 30) if SPARK_CASES in os.environ else 0
    chosen = int(os.environ.get(SPARK_SEED, usual))
    return examples(strategy, count, chosen), chosen


def examples(strategy: st.SearchStrategy[T], count: int, chosen: int) -> list[T]:
    """Examples that a seed always gives.

    Hypothesis takes some values from constants of the modules that are loaded. None are taken here, since
    other modules would then give other examples.
    """
    found: list[T] = []

    # The first example is the least one, which says little.
    @seed(chosen)
    @settings(
        max_examples=count + 1,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def keep(example: T) -> None:
        found.append(example)

    with patch.object(HypothesisProvider, "_maybe_draw_constant", lambda *asked, **more: None):
        keep()
    return found[1:]
