"""State on the papers' workloads: never more than `endmark validate` says, and none in the end."""

from __future__ import annotations

import json

import pytest

from endmark.operators.stream_join.presets import Preset
from endmark_benchmarks.measurements.state_bounds import PAGE, RESULTS, render
from support.news_insertions import insertions
from support.state_bounds import run, workloads

VALUES = 30
NAMES = list(workloads(VALUES))


@pytest.mark.parametrize("name", NAMES)
def test_never_more_rows_than_allowed(name: str) -> None:
    """After each batch, on a join that would hold several times as much without its bounds; once the streams
    are over it holds nothing."""
    course = run(workloads(VALUES)[name], batch=100)

    assert all(state.bounded_by for state in course.bounds)
    assert all(held <= allowed for held, allowed in zip(course.held, course.allowed, strict=True))
    assert max(course.held) > 0
    assert max(course.held) * 2 < course.arrived[-1]
    assert course.held[-1] == 0


def test_a_join_that_never_purges_holds_everything() -> None:
    """So that the figures say what bounds save."""
    course = run(workloads(VALUES)["punct-asc-100-40"], batch=500, preset=Preset.SHJ)

    assert not any(state.bounded_by for state in course.bounds)
    assert course.held == course.arrived
    assert course.allowed[:-1] == course.arrived[:-1]


@pytest.mark.parametrize("burst", [11, 55, 220])
def test_batches_need_no_scheduling(burst: int) -> None:
    """A batch joins before it inserts, so no more accesses enter state than with MJoin's schedulers at work
    on the same elements."""
    found = insertions(workloads(100)["news"], burst)

    assert found.engine <= found.scheduled < found.unscheduled < found.rows


def test_the_page_shows_what_was_found() -> None:
    page = PAGE.read_text()

    assert render(page, json.loads(RESULTS.read_text())) == page
