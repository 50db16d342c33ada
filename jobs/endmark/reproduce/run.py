"""All experiments by name."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from endmark.reproduce import counters, pages, punctuations, window_state
from endmark.reproduce.counters import CounterFigures
from endmark.reproduce.pages import PageFigures
from endmark.reproduce.punctuations import PunctuationFigures
from endmark.reproduce.report import Figures, Table
from endmark.reproduce.window_state import WindowStateFigures


class Experiment(StrEnum):
    """What can be reproduced."""

    COUNTERS = "counters"
    WINDOW_STATE = "window-state"
    PUNCTUATIONS = "punctuations"
    PAGES = "pages"


class Results(Figures):
    """What the experiments found; one that did not run is absent."""

    counters: CounterFigures | None = None
    window_state: list[WindowStateFigures] | None = None
    punctuations: PunctuationFigures | None = None
    pages: list[PageFigures] | None = None

    def to_json(self) -> str:
        return self.model_dump_json(indent=2, exclude_none=True)

    def tables(self) -> dict[str, Table]:
        """By name, in the order of the experiments."""
        found: dict[str, Table] = {}
        if self.counters:
            found |= counters.tables(self.counters)
        if self.window_state:
            found |= window_state.tables(self.window_state)
        if self.punctuations:
            found |= punctuations.tables(self.punctuations)
        if self.pages:
            found |= pages.tables(self.pages)
        return found


def run_experiments(experiments: list[Experiment], say: Callable[[str], None]) -> Results:
    def chosen(experiment: Experiment) -> bool:
        if experiment in experiments:
            say(f"running {experiment}")
        return experiment in experiments

    return Results(
        counters=counters.measure() if chosen(Experiment.COUNTERS) else None,
        window_state=window_state.measure() if chosen(Experiment.WINDOW_STATE) else None,
        punctuations=punctuations.measure() if chosen(Experiment.PUNCTUATIONS) else None,
        pages=pages.measure() if chosen(Experiment.PAGES) else None,
    )
