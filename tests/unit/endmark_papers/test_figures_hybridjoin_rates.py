"""The claims of HYBRIDJOIN's figures 10c and 10d, recomputed from service rates."""

from __future__ import annotations

from typing import Any

import pytest

from endmark_papers.figures import hybridjoin_rates
from endmark_papers.figures.figure import Verdict
from endmark_papers.figures.hybridjoin_rates import BY_MEMORY, BY_SIZE, Axis

HOLDS, IN_SHAPE, FAILS = Verdict


def contender(rate: float, rows: float) -> dict[str, Any]:
    return {"rates": [rate, rate, rate], "rows_per_read": [rows, rows, rows]}


def report(axis: Axis, sizes: list[int], hybrid: list[float]) -> dict[str, Any]:
    """MESHJOIN has 1,000 rows/s at all sizes and answers half as many rows a page; INLJ has 100 rows/s."""
    cells = [
        {
            axis.field: size,
            axis.fixed: axis.value,
            "exponent": 1.0,
            "layout": layout,
            "contenders": {
                "hybrid": contender(rate, 200),
                "meshjoin": contender(1_000, 100),
                "inlj": contender(100, 1),
            },
        }
        for layout in ("sorted", "scattered")
        for size, rate in zip(sizes, hybrid, strict=True)
    ]
    elsewhere = {**cells[0], axis.fixed: 7}, {**cells[0], "exponent": 0.5}
    return {"commit": "abc", "options": {"repeats": 3}, "cells": [*elsewhere, *cells]}


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ([3_000.0, 2_000.0], [HOLDS, HOLDS, HOLDS]),
        ([2_000.0, 3_000.0], [HOLDS, HOLDS, FAILS]),
        ([2_000.0, 900.0], [IN_SHAPE, HOLDS, HOLDS]),
        ([500.0, 400.0], [FAILS, HOLDS, HOLDS]),
    ],
)
def test_rates_by_size(rates: list[float], expected: list[Verdict]) -> None:
    figure = hybridjoin_rates.figure(report(BY_SIZE, [500_000, 1_000_000], rates), BY_SIZE)
    assert [claim.verdict for claim in figure.claims] == 2 * expected
    assert all(bool(claim.why) == (claim.verdict is not HOLDS) for claim in figure.claims)
    assert figure.panels[0].curves[0].x == [0.5, 1.0]
    assert figure.panels[0].curves[0].y == [rate / 1_000 for rate in rates]


def test_rates_by_memory_have_a_measured_reason() -> None:
    figure = hybridjoin_rates.figure(report(BY_MEMORY, [50, 100], [500.0, 800.0]), BY_MEMORY)
    assert [claim.verdict for claim in figure.claims] == 2 * [FAILS, HOLDS]
    assert "answers 2.00 to 2.00 times as many rows" in figure.claims[0].why
    assert "takes 2.50 to 4.00 times as long" in figure.claims[0].why


def test_a_lead_within_the_spread_of_readings_is_not_shown() -> None:
    """The mean is 1.2 times MESHJOIN's rate, but three such readings are also likely without any lead."""
    cells = report(BY_SIZE, [500_000], [1_200.0])
    for cell in cells["cells"]:
        cell["contenders"]["hybrid"]["rates"] = [900.0, 1_200.0, 1_500.0]
    over_meshjoin, over_inlj, *_ = hybridjoin_rates.figure(cells, BY_SIZE).claims
    assert over_meshjoin.verdict is IN_SHAPE
    assert over_meshjoin.ours.startswith("1.20 ± 0.74 times")
    assert over_meshjoin.why.startswith("The 95 % interval is not above 1 at 0.5.")
    assert over_inlj.verdict is HOLDS
