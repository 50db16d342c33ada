"""The published figures of the stream join's cost model: how far it and the paper's equation are off."""

from __future__ import annotations

import json

import pytest

from endmark_benchmarks.measurements.state_bounds import PAGE
from endmark_benchmarks.measurements.stream_join_model import RESULTS, render, settings

FIGURES = json.loads(RESULTS.read_text())


def test_every_setting_is_published() -> None:
    there = {(each["preset"], each["interval"], each["window"], each["purge_every"]) for each in FIGURES}

    assert there == {(each.preset, each.interval, each.window, each.purge_every) for each in settings()}


@pytest.mark.parametrize(("measured", "settings_of_it"), [("rows", 66), ("announced_after", 48)])
def test_the_model_is_within_15_percent(measured: str, settings_of_it: int) -> None:
    """Rows in state, and the time until keys are announced, where they are."""
    found = [
        (each[measured], each[f"predicted_{measured}"]) for each in FIGURES if each[measured] is not None
    ]

    assert len(found) == settings_of_it
    assert all(predicted == pytest.approx(value, rel=0.15) for value, predicted in found)


def test_equation_1_predicts_too_few_rows() -> None:
    """Everywhere, as it counts keys that no row in the window has."""
    with_paper = [each for each in FIGURES if each["paper_rows"] is not None]

    assert with_paper
    assert all(each["paper_rows"] < 0.6 * each["rows"] for each in with_paper)


def test_the_page_shows_what_was_found() -> None:
    page = PAGE.read_text()

    assert render(page, FIGURES) == page
