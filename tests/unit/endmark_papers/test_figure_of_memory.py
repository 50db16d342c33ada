"""The claim of PWJoin's equation 1, recomputed from the estimates of its state."""

from __future__ import annotations

from pathlib import Path

from endmark_papers.figures import pwjoin_memory
from endmark_papers.figures.figure import Figure, Verdict

KEPT = Path(__file__).parents[3] / "docs" / "operators" / "figures" / "pw-eq1.json"


def test_equation_1_is_too_low_and_littles_law_is_not() -> None:
    published = Figure.model_validate_json(KEPT.read_text())
    assert pwjoin_memory.measure(1.0) == published
    [claim] = published.claims
    assert claim.verdict is Verdict.FAILS
    assert claim.ours == "it is 42% to 100% too low in 12 settings"
    assert "is 1% off at worst" in claim.why


def test_an_equation_that_is_close_holds() -> None:
    panels = pwjoin_memory.measure(1.0).panels
    for panel in panels:
        measured, _, equation = panel.curves
        equation.y[:] = [0.9 * rows for rows in measured.y]
    [claim] = pwjoin_memory.claims(panels)
    assert claim.verdict is Verdict.HOLDS
