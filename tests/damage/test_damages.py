"""Each kind of damage to one pipeline's files; `make faults-files` has all pipelines, and several seeds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from damage.campaign import NAMES, Bench, benches
from damage.damages import KINDS


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with benches(tmp_path_factory.mktemp("damage"), range(1)) as found:
        yield next(found)[1]


@pytest.mark.parametrize(("number", "kind"), list(enumerate(KINDS)))
def test_a_damaged_job_recovers_or_refuses(bench: Bench, number: int, kind: str) -> None:
    outcome = bench.outcome(NAMES[number % len(NAMES)], kind)

    assert outcome.wrong is None, outcome.wrong
