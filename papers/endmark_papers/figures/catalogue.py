"""The figures of the papers by name."""

from __future__ import annotations

from endmark_papers.figures import (
    hybridjoin_figures,
    mjoin_purge,
    mjoin_scheduling,
    mjoin_state,
    mjoin_time,
    pwjoin_memory,
    pwjoin_punctuations,
    pwjoin_rate,
    pwjoin_state,
    pwjoin_useless,
)
from endmark_papers.figures.figure import Measurement

_MODULES = (
    mjoin_scheduling,
    mjoin_time,
    mjoin_state,
    mjoin_purge,
    pwjoin_state,
    pwjoin_rate,
    pwjoin_useless,
    pwjoin_punctuations,
    pwjoin_memory,
    hybridjoin_figures,
)

FIGURES: dict[str, Measurement] = {
    measurement.name: measurement for module in _MODULES for measurement in module.MEASUREMENTS
}
