"""The claims of HYBRIDJOIN's figures, recomputed from the published curves and from smaller runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from endmark_papers.algorithms.hybridjoin import HybridJoin
from endmark_papers.algorithms.inlj import IndexNestedLoopJoin
from endmark_papers.algorithms.meshjoin import MeshJoin
from endmark_papers.algorithms.relation import MasterRow, PagedRelation
from endmark_papers.figures import (
    hybridjoin_buffer,
    hybridjoin_bursts,
    hybridjoin_clock,
    hybridjoin_costs,
    hybridjoin_keys,
    hybridjoin_times,
)
from endmark_papers.figures.figure import Curve, Figure, Panel, Verdict
from endmark_papers.figures.hybridjoin_clock import ReadSeconds

KEPT = Path(__file__).parents[3] / "docs" / "operators" / "figures"
COSTS = ReadSeconds(page=1e-3, key=2e-4)
HOLDS, IN_SHAPE, FAILS = Verdict


def kept(name: str) -> Figure:
    return Figure.model_validate_json((KEPT / f"{name}.json").read_text())


def verdicts(figure: Figure) -> list[Verdict]:
    return [claim.verdict for claim in figure.claims]


def test_use_of_r_by_position() -> None:
    """Figure 3: the stream uses R's first segments most; MESHJOIN reads all alike, HYBRIDJOIN does not."""
    published = kept("hj-3")
    [panel] = published.panels
    assert hybridjoin_keys.segment_claims(panel) == published.claims
    rows = panel.curves[0].y
    assert (round(rows[0], 1), round(rows[-1], 4)) == (57.9, 0.0079)
    for figure in (published, hybridjoin_keys.measure_segments(0.03)):
        assert verdicts(figure) == [HOLDS, HOLDS, HOLDS]


def test_the_long_tail() -> None:
    """Figure 8: few keys are asked for often, but the top fifth has 88.9 % of the stream, not 80 %."""
    published = kept("hj-8")
    assert hybridjoin_keys.tail_claims(published.panels, hybridjoin_keys.RANKS) == published.claims
    assert round(published.panels[1].curves[0].y[20], 1) == 88.9
    for figure in (published, hybridjoin_keys.measure_tail(0.05)):
        assert verdicts(figure) == [HOLDS, IN_SHAPE]


def test_bursts_at_four_scales() -> None:
    """Figure 9: our arrivals are self-similar. Those of the printed generator are not."""
    published = kept("hj-9")
    assert hybridjoin_bursts.claims(published.panels) == published.claims
    for figure in (published, hybridjoin_bursts.measure(0.25)):
        assert verdicts(figure) == [HOLDS, HOLDS, FAILS]


def test_the_disk_buffer() -> None:
    """Figure 6: the service rate has an interior maximum."""
    published = kept("hj-6")
    assert hybridjoin_buffer.measure(1.0) == published
    assert published.claims[0].verdict is HOLDS


def report(rates: list[float], page_seconds: list[float]) -> dict[str, Any]:
    buffers = [
        {
            "page_rows": 100 * 2**at,
            "buffer_bytes": 1_000_000 * 2**at,
            "rates": [rate],
            "page_seconds": [seconds],
            "rows_per_read": [50.0],
        }
        for at, (rate, seconds) in enumerate(zip(rates, page_seconds, strict=True))
    ]
    options = {"relation_rows": 1_000, "memory": 10, "repeats": 1}
    return {"options": options, "buffers": buffers}


def test_a_disk_buffer_that_grows_too_large() -> None:
    peak = hybridjoin_buffer.figure(report([1e5, 3e5, 2e5], [1e-3, 2e-3, 9e-3]))
    assert verdicts(peak) == [HOLDS, HOLDS, HOLDS]
    assert verdicts(hybridjoin_buffer.figure(report([1e5, 2e5, 3e5], [1e-3, 3e-3, 2e-3]))) == [
        IN_SHAPE,
        IN_SHAPE,
        FAILS,
    ]


def test_processing_time() -> None:
    """Figure 10a: HYBRIDJOIN is far ahead under bursts, but hardly with a full memory of the same size."""
    published = kept("hj-10a")
    assert hybridjoin_times.processing_claims(published.panels, ReadSeconds.measured()) == published.claims
    for figure in (published, hybridjoin_times.processing(COSTS, 0.05)):
        assert verdicts(figure) == [HOLDS, IN_SHAPE, HOLDS]


def test_waiting_time() -> None:
    """Figure 10b: MESHJOIN waits longest; HYBRIDJOIN and INLJ cross at a far higher rate than printed."""
    published = kept("hj-10b")
    assert hybridjoin_times.waiting_claims(published.panels, ReadSeconds.measured()) == published.claims
    for figure in (published, hybridjoin_times.waiting(COSTS, 0.05)):
        assert verdicts(figure) == [HOLDS, FAILS, IN_SHAPE, IN_SHAPE]


def test_curves_cross_where_they_are_equal() -> None:
    flat, steep = Curve(name="a", x=[100, 400], y=[1, 1]), Curve(name="b", x=[100, 400], y=[0.25, 4])
    assert hybridjoin_times.crossing(flat, steep) == pytest.approx(200)
    assert hybridjoin_times.crossing(steep, steep) is None


def test_the_cost_model() -> None:
    """Figure 11: the predicted cost of every algorithm is within 15 % of the measured one."""
    published = kept("hj-11")
    assert hybridjoin_costs.measure(1.0) == published
    assert verdicts(published) == [HOLDS, HOLDS, HOLDS]
    off = Curve(name="loops", x=[1, 2, 3], y=[1, 2, 4])
    panel = Panel(title="INLJ", x="", y="", curves=[off])
    assert [claim.verdict for claim in hybridjoin_costs.claims([panel])] == [IN_SHAPE]


def relation() -> PagedRelation:
    return PagedRelation([MasterRow(key, key) for key in range(1, 9)], page_rows=2)


def test_a_row_of_hybridjoin_waits_for_the_read_before_it() -> None:
    """Row 0 is read at 0 s. Row 1 comes at 0.25 s, enters at 1 s and is read until 2 s."""
    times = hybridjoin_clock.run(
        HybridJoin(relation(), 10), np.array([1, 8]), np.array([0.0, 0.25]), 1.0, slice(0, 2)
    )
    assert times == (1.0, 0.375)


def test_a_row_of_meshjoin_waits_for_the_input_of_every_read() -> None:
    """Row 0 needs the fourth page. It enters at 0 s, and before each read a row comes, every 10 s."""
    times = hybridjoin_clock.run(
        MeshJoin(relation(), 1), np.array([8, 1, 1, 1]), np.arange(0.0, 40.0, 10.0), 1.0, slice(0, 1)
    )
    assert times == (4.0, 27.0)


def test_a_row_of_inlj_waits_for_those_before_it() -> None:
    times = hybridjoin_clock.run(
        IndexNestedLoopJoin(relation()), np.array([1, 1, 1]), np.zeros(3), 2.0, slice(0, 3)
    )
    assert times == (2.0, 2.0)


def test_a_stream_that_ends_too_early_is_said() -> None:
    with pytest.raises(ValueError, match="before 1 rows were answered"):
        hybridjoin_clock.run(MeshJoin(relation(), 1), np.array([8]), np.zeros(1), 1.0, slice(0, 1))
