"""The figures of HYBRIDJOIN's paper (UoA-SE-2010-2), by the paper's numbers."""

from __future__ import annotations

from endmark_papers.figures import (
    hybridjoin_buffer,
    hybridjoin_bursts,
    hybridjoin_costs,
    hybridjoin_keys,
    hybridjoin_rates,
    hybridjoin_times,
)
from endmark_papers.figures.figure import Measurement

_MODULES = (
    hybridjoin_keys,
    hybridjoin_buffer,
    hybridjoin_bursts,
    hybridjoin_times,
    hybridjoin_rates,
    hybridjoin_costs,
)

MEASUREMENTS: list[Measurement] = [each for module in _MODULES for each in module.MEASUREMENTS]
