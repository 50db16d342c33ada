"""The lookup join by every strategy against a left join of DuckDB, on random histories."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.operators.lookup.strategies import STRATEGIES
from support.cases import cases
from support.lookup_run import MeshJoinRun, OperatorRun
from support.lookup_world import histories


@pytest.mark.parametrize("strategy", STRATEGIES)
@cases(9, among=len(STRATEGIES))
@given(data=st.data())
def test_every_row_gets_its_answer_once(
    strategy: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whatever the batches, budgets, restarts, cache and misses: all matches once, or one miss."""
    OperatorRun(data.draw(histories(strategy)), tmp_path_factory.mktemp("segments")).check()


@cases(9)
@given(data=st.data(), memory_rows=st.integers(1, 40))
def test_meshjoin_answers_every_row_once(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, memory_rows: int
) -> None:
    """The same holds for the benchmark's MESHJOIN, whatever its memory."""
    directory = tmp_path_factory.mktemp("segments")
    MeshJoinRun(data.draw(histories("mesh")), directory, memory_rows).check()


@cases(9)
@given(data=st.data())
def test_hybrid_reads_the_page_of_the_oldest_row(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """A batch that reads a single page answers the row that has waited longest."""
    history = data.draw(histories("hybrid"))
    history = history._replace(reads=1, capacity=None, attempts=1, page_rows=1)
    OperatorRun(history, tmp_path_factory.mktemp("segments")).check()
