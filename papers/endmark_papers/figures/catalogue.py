"""The figures of the papers by name."""

from __future__ import annotations

from endmark_papers.figures import hybridjoin_figures, pwjoin_state
from endmark_papers.figures.figure import Measurement

_MODULES = (pwjoin_state, hybridjoin_figures)

FIGURES: dict[str, Measurement] = {
    measurement.name: measurement for module in _MODULES for measurement in module.MEASUREMENTS
}
