"""The page of figures, the files beside it, and the command that writes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from endmark_papers.__main__ import app
from endmark_papers.figures import catalogue, page
from endmark_papers.figures.catalogue import FIGURES
from endmark_papers.figures.curves import mean_curve
from endmark_papers.figures.draw import svg
from endmark_papers.figures.figure import Claim, Curve, Figure, Measurement, Panel, Verdict

DOCS = Path(__file__).parents[3] / "docs" / "operators"


def test_every_figure_is_kept_with_its_picture() -> None:
    names = {f"{name}.{kind}" for name in FIGURES for kind in ("json", "svg")}
    assert {file.name for file in (DOCS / page.FOLDER).iterdir()} == names
    assert [figure.name for figure in page.kept(DOCS)] == list(FIGURES)


def test_the_page_is_written_from_the_figures() -> None:
    text = (DOCS / page.PAGE).read_text()
    assert page.render(text, page.kept(DOCS)) == text, "run make papers"
    assert "<!-- begin counts -->" in text
    assert "<!-- begin figures -->" in text


def test_a_picture_is_drawn_from_its_data() -> None:
    """Only the first: drawing all of them takes seconds."""
    figure = page.kept(DOCS)[0]
    assert (DOCS / page.FOLDER / f"{figure.name}.svg").read_text() == svg(figure)


def test_a_claim_that_does_not_hold_says_why() -> None:
    claims = [claim for figure in page.kept(DOCS) for claim in figure.claims]
    assert claims
    assert [claim.claim for claim in claims if bool(claim.why) == (claim.verdict is Verdict.HOLDS)] == []


def _figure(scale: float) -> Figure:
    claims = [
        Claim(claim="It rises.", paper="no figure", ours=f"to {scale}", verdict=Verdict.HOLDS),
        Claim(claim="It falls.", paper="to 0", ours="no", verdict=Verdict.FAILS, why="It rises."),
    ]
    panel = Panel(title="one", x="s", y="rows", curves=[Curve(name="ours", x=[1, 2], y=[1, scale])])
    return Figure(name="xy-1", title="Figure 1", setup="Two points.", panels=[panel], claims=claims)


def test_the_command_keeps_what_it_measures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(catalogue.FIGURES, "xy-1", Measurement("xy-1", _figure))
    marks = "<!-- begin {} -->\n<!-- end -->\n"
    (tmp_path / page.PAGE).write_text(marks.format("counts") + marks.format("figures"))

    run = CliRunner().invoke(app, ["figures", "xy-1", "--scale", "0.5", "--directory", str(tmp_path)])

    assert run.exit_code == 0, run.output
    [kept] = page.kept(tmp_path)
    assert kept == _figure(0.5)
    assert (tmp_path / page.FOLDER / "xy-1.svg").read_text() == svg(kept)
    text = (tmp_path / page.PAGE).read_text()
    assert "| 1 | 0 | 1 | 2 |" in text
    assert "| It falls. | to 0 | no | does not hold | It rises. |" in text


def test_an_unknown_figure_is_refused(tmp_path: Path) -> None:
    run = CliRunner().invoke(app, ["figures", "mj-99", "--directory", str(tmp_path)])
    assert run.exit_code == 2
    assert "mj-99" in run.output


def test_a_curve_has_the_interval_of_its_mean() -> None:
    curve = mean_curve("rows", [1, 2], [[1, 5], [3, 5], [2, 5]])
    # Student's t of two degrees of freedom is 4.30, and the standard error is 1 / sqrt(3).
    assert (curve.y, curve.low, curve.high) == ([2, 5], [-0.5, 5], [4.5, 5])
    assert mean_curve("rows", [1], [[1]]).low == []
