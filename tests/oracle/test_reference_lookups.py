"""Every lookup join of the papers against the join's definition."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given

from endmark_papers.algorithms.hybridjoin import HybridJoin
from endmark_papers.algorithms.inlj import IndexNestedLoopJoin
from endmark_papers.algorithms.meshjoin import MeshJoin
from support.cases import cases
from support.lookup_oracle import History, Subject, check, histories

SUBJECTS = {
    "hybridjoin": Subject(
        lambda history: HybridJoin(history.paged(), history.memory_rows),
        limit=lambda history: history.memory_rows,
    ),
    "hybridjoin, unaligned": Subject(
        lambda history: HybridJoin(history.paged(), history.memory_rows, pages="paper"),
        limit=lambda history: history.memory_rows,
    ),
    "meshjoin": Subject(
        lambda history: MeshJoin(history.paged(), loop_rows=history.memory_rows),
        limit=lambda history: history.memory_rows * history.paged().pages,
        whole=False,
    ),
    "meshjoin, two pages": Subject(
        lambda history: MeshJoin(history.paged(), history.memory_rows, pages_per_segment=2),
        limit=lambda history: history.memory_rows * ceil(history.paged().pages / 2),
        whole=False,
    ),
    "inlj": Subject(lambda history: IndexNestedLoopJoin(history.paged()), limit=lambda _: 0),
    "inlj, batched": Subject(
        lambda history: IndexNestedLoopJoin(history.paged(), batch=history.memory_rows), limit=lambda _: 0
    ),
}


@pytest.mark.parametrize("name", SUBJECTS)
@cases(45)
@given(history=histories)
def test_reference_loses_and_invents_nothing(name: str, history: History) -> None:
    """Every row gets all its matches once, or one miss, however arrivals and loops interleave."""
    check(SUBJECTS[name], history)
