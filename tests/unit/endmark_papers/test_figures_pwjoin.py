"""What the curves of PWJoin's figures say of the paper's claims, on the page and on a smaller run."""

from __future__ import annotations

from pathlib import Path

from endmark_papers.figures import pwjoin_state
from endmark_papers.figures.figure import Figure, Verdict

KEPT = Path(__file__).parents[3] / "docs" / "operators" / "figures"


def kept(name: str) -> Figure:
    return Figure.model_validate_json((KEPT / f"{name}.json").read_text())


def test_state_over_time() -> None:
    """Figure 8: both claims hold."""
    published = kept("pw-8")
    assert pwjoin_state.claims(published.panels) == published.claims
    for figure in (published, pwjoin_state.measure(0.3)):
        assert [claim.verdict for claim in figure.claims] == [Verdict.HOLDS, Verdict.HOLDS]
