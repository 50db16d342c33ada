"""The experiments by name, and the findings of those that are run."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from endmark_papers.experiments import counters, pages, punctuations, window_state
from endmark_papers.experiments.counters import CounterFigures
from endmark_papers.experiments.pages import PageFigures
from endmark_papers.experiments.punctuations import PunctuationFigures
from endmark_papers.experiments.report import Figures, Table
from endmark_papers.experiments.window_state import WindowStateFigures


class Experiment(StrEnum):
    """The experiments that can be run."""

    COUNTERS = "counters"
    WINDOW_STATE = "window-state"
    PUNCTUATIONS = "punctuations"
    PAGES = "pages"


class Results(Figures):
    """The findings of the experiments; one that did not run is absent."""

    counters: CounterFigures | None = None
    window_state: list[WindowStateFigures] | None = None
    punctuations: PunctuationFigures | None = None
    pages: list[PageFigures] | None = None

    def to_json(self) -> str:
        return self.model_dump_json(indent=2, exclude_none=True)

    def tables(self) -> dict[str, Table]:
        """Return the tables by name, in the order of the experiments."""
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
