"""The claims of MJoin's figures, recomputed from the published curves and from smaller runs.

Claims about counts are measured again. Of a claim about time, what is counted is measured again, and the
page says what its own curves say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from endmark_papers.algorithms.contract import Row, Side
from endmark_papers.algorithms.mjoin import MetadataJoin
from endmark_papers.algorithms.mjoin_options import MJoinOptions
from endmark_papers.algorithms.xjoin import XJoin
from endmark_papers.figures import mjoin_purge, mjoin_scheduling, mjoin_state, mjoin_time
from endmark_papers.figures.figure import Claim, Curve, Figure, Panel, Verdict
from endmark_papers.figures.mjoin_streams import PATTERNS, news, over_results

KEPT = Path(__file__).parents[3] / "docs" / "operators" / "figures"
HOLDS, IN_SHAPE = Verdict.HOLDS, Verdict.IN_SHAPE


def kept(name: str) -> Figure:
    return Figure.model_validate_json((KEPT / f"{name}.json").read_text())


def last(panel: Panel) -> dict[str, float]:
    return {curve.name: curve.y[-1] for curve in panel.curves}


@pytest.mark.parametrize(
    ("name", "claims"),
    [
        ("mj-8", mjoin_scheduling.claims),
        ("mj-9", mjoin_time.claims),
        ("mj-10", mjoin_state.claims),
        ("mj-11", mjoin_purge.claims),
    ],
)
def test_the_page_says_what_its_curves_say(
    name: str, claims: Callable[[Sequence[Panel]], list[Claim]]
) -> None:
    published = kept(name)
    assert claims(published.panels) == published.claims


class TestScheduling:
    """Figure 8."""

    def test_fewer_accesses_enter_the_state(self) -> None:
        panels = [mjoin_scheduling.counted(pattern, 60, 3) for pattern in PATTERNS]
        published = kept("mj-8")
        [stored, _] = mjoin_scheduling.claims([*panels, *published.panels[3:]])
        assert stored.verdict is published.claims[0].verdict is HOLDS

    def test_it_is_the_choice_of_the_stream_that_saves(self) -> None:
        for pattern in PATTERNS:
            found = last(mjoin_scheduling.counted(pattern, 60, 2))
            assert found["random, sequential"] == found["random, value-oriented"]
            assert found["priority, sequential"] == found["priority, value-oriented"]

    @pytest.mark.parametrize("pattern", PATTERNS)
    def test_an_order_has_every_element_once(self, pattern: str) -> None:
        elements = news(pattern, 30, 1)
        for name in mjoin_scheduling.POLICIES:
            order = mjoin_scheduling.order(name, elements)
            rows = [element for element in order if isinstance(element, Row)]
            assert Counter(rows) == Counter(element for element in elements if isinstance(element, Row))
            assert len(order) == len(elements)

    def test_the_engine_has_the_results_of_every_order(self) -> None:
        """No time is asserted: a batch is joined as a whole, so an order within it saves nothing."""
        panel = mjoin_scheduling.timed("random among 10", 20, 2)
        assert {curve.name for curve in panel.curves} == set(mjoin_scheduling.POLICIES)


class TestTime:
    """Figure 9."""

    ARTICLES = 350  # the counts cross at about 2,350 results

    def test_the_counts_cross_but_not_where_the_paper_says(self) -> None:
        panels = [
            mjoin_time.compared(
                pattern, [news(pattern, self.ARTICLES, seed) for seed in (1, 2)], self.ARTICLES
            )
            for pattern in mjoin_time.PATTERNS
        ]
        published = kept("mj-9")
        claim = mjoin_time.claims([*panels, *published.panels[2:]])[0]
        assert claim.verdict is published.claims[0].verdict is IN_SHAPE
        for panel in (*panels, *published.panels[:2]):
            crossing = mjoin_time._Work.of(panel).crossing
            assert crossing == pytest.approx(2_350, rel=0.1)

    def test_only_xjoin_goes_to_the_disk(self) -> None:
        panel = mjoin_time.overflowing([news("ordered", 60, seed) for seed in (1, 2)], 60, 200)
        found = last(panel)
        published = kept("mj-9")
        claim = mjoin_time.claims([*published.panels[:2], panel, published.panels[3]])[1]
        assert found["MJoin"] == 0 < found["XJoin"]
        assert claim.verdict is published.claims[1].verdict is HOLDS

    def test_a_chain_has_all_rows_of_a_bucket(self) -> None:
        joins = XJoin(None, partitions=4), MetadataJoin(MJoinOptions(buckets=4))
        for join in joins:
            for serial, key in enumerate((1, 5, 5, 2)):
                join.process(Row(Side.LEFT, key, 0, serial))
            chains = [join.chain(Row(Side.RIGHT, key, 0, 0)) for key in (1, 2, 3, 9)]
            assert chains == [3, 1, 0, 3]
            assert join.chain(Row(Side.LEFT, 1, 0, 9)) == 0

    def test_the_engine_is_timed_with_and_without_a_limit(self) -> None:
        panel = mjoin_time.timed(20, 2_000, 2)
        assert [curve.name for curve in panel.curves] == [
            "XJoin",
            "MJoin",
            "XJoin, 2,000 bytes",
            "MJoin, 2,000 bytes",
        ]


class TestState:
    """Figure 10."""

    def test_random_is_an_order_among_neighbours(self) -> None:
        for figure in (kept("mj-10"), mjoin_state.measure(0.2)):
            assert [claim.verdict for claim in figure.claims] == [HOLDS, IN_SHAPE]

    def test_a_whole_shuffle_leaves_accesses_in_state(self) -> None:
        ordered, near, whole = (max(mjoin_state._panel(pattern, 250).curves[1].y) for pattern in PATTERNS)
        assert near < 2 * ordered
        assert whole > 3 * near


class TestPurge:
    """Figure 11."""

    def test_a_scan_makes_purging_at_once_dear(self) -> None:
        inputs = [news(mjoin_purge.PATTERN, 250, seed) for seed in (1, 2)]
        published = kept("mj-11")
        claim = mjoin_purge.claims([*mjoin_purge.counted(inputs, 250), published.panels[2]])[0]
        assert claim.verdict is published.claims[0].verdict is HOLDS

    def test_every_interval_is_timed_in_the_engine(self) -> None:
        panel = mjoin_purge.timed(news(mjoin_purge.PATTERN, 20, 1), 2)
        assert panel.curves[0].x == [1, 10, 100, 1_000]
        assert panel.curves[0].y[0] == 1


def test_values_are_read_between_two_readings() -> None:
    assert over_results([0, 10, 20], [0, 100, 300], [5, 10, 15]) == [50, 100, 200]


def test_a_crossing_is_the_first_reading_with_more_work() -> None:
    x = [1.0, 2.0, 3.0]
    names = (mjoin_time._XJOIN, mjoin_time._MJOIN, mjoin_time._LOOKUPS)
    ys = ([1.0, 5.0, 9.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    curves = [Curve(name=name, x=x, y=y) for name, y in zip(names, ys, strict=True)]
    work = mjoin_time._Work.of(Panel(title="", x="", y="", curves=curves))
    assert work.crossing == 2
    assert work.gain == 1.5
    assert work._replace(xjoin=[0.0, 0.0, 0.0]).crossing is None
