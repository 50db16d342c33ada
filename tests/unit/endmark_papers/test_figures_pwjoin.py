"""The claims of PWJoin's figures, recomputed from the published curves and from smaller runs.

Claims about counts are measured again. Of a claim about time, what is counted is measured again, and the
page says what its own curves say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from endmark_feed.papers.names import parse_workload
from endmark_papers.algorithms.contract import Closing, Side
from endmark_papers.algorithms.pwjoin import PunctuatedWindowJoin
from endmark_papers.experiments.streams import join_input
from endmark_papers.figures import pwjoin_punctuations, pwjoin_rate, pwjoin_state, pwjoin_useless
from endmark_papers.figures.curves import sampled
from endmark_papers.figures.figure import Claim, Figure, Panel, Verdict

KEPT = Path(__file__).parents[3] / "docs" / "operators" / "figures"
HOLDS = Verdict.HOLDS


def kept(name: str) -> Figure:
    return Figure.model_validate_json((KEPT / f"{name}.json").read_text())


@pytest.mark.parametrize(
    ("name", "claims"),
    [
        ("pw-8", pwjoin_state.claims),
        ("pw-9", pwjoin_rate.claims),
        ("pw-10", pwjoin_useless.claims),
        ("pw-11", pwjoin_punctuations.claims_both_close),
        ("pw-12", pwjoin_punctuations.claims_one_closes),
    ],
)
def test_the_page_says_what_its_curves_say(
    name: str, claims: Callable[[Sequence[Panel]], list[Claim]]
) -> None:
    published = kept(name)
    assert claims(published.panels) == published.claims


def test_state_over_time() -> None:
    """Figure 8: both claims hold."""
    for figure in (kept("pw-8"), pwjoin_state.measure(0.3)):
        assert [claim.verdict for claim in figure.claims] == [HOLDS, HOLDS]


class TestRate:
    """Figure 9."""

    def test_a_probe_by_key_does_not_meet_what_punctuations_take_out(self) -> None:
        """It is why PWJoin gains nothing by its smaller state, unless keys share few buckets."""
        for panel in (kept("pw-9").panels[-1], pwjoin_rate.comparisons(pwjoin_rate.elements(1, 40))):
            looked_at = {curve.name: curve.y for curve in panel.curves}
            assert looked_at["a bucket a key"] == [1, 1, 1, 1]
            # Within the last window, of 60 s, more keys come than there are buckets.
            assert min(looked_at["64 buckets"][:-1]) > 0.9
            at_15_s = [looked_at[name][2] for name in ("1 bucket", "8 buckets", "64 buckets")]
            assert at_15_s == sorted(at_15_s)
            assert at_15_s[0] < 0.5

    def test_a_faster_stream_keeps_values_open_for_as_long(self) -> None:
        slow, fast = (pwjoin_rate.elements(faster, 20) for faster in (1, 10))
        assert len(fast) == pytest.approx(10 * len(slow), rel=0.1)
        assert fast[-1].time == pytest.approx(slow[-1].time, rel=0.1)
        closed = [
            sum(isinstance(each, Closing) and each.side is Side.LEFT for each in some)
            for some in (slow, fast)
        ]
        assert closed == [20, 200]

    def test_both_joins_are_timed_in_every_window(self) -> None:
        found = pwjoin_rate.run(pwjoin_rate.elements(1, 4), 100, 1)
        assert list(found) == list(pwjoin_rate.WINDOWS)
        for courses in found.values():
            [mine], [theirs] = courses["PWJoin"], courses["WJoin"]
            assert mine.results == theirs.results


class TestUselessPunctuations:
    """Figure 10."""

    def test_they_cost_a_batch_more_than_they_cost_each(self) -> None:
        """Segments written a batch stand for time: as many more of few punctuations as of many."""
        trials = pwjoin_useless.run(60, (300, 1_200), 2)
        for panel in (kept("pw-10").panels[2], pwjoin_useless._segments(trials)):
            with_them, without = (curve.y for curve in panel.curves)
            more = [one - other for one, other in zip(with_them, without, strict=True)]
            assert min(more) > 1.5
            assert max(more) < 2.7  # two, and a third of them for merges of four
        for trial in trials:
            results = {courses[0].results[-1] for courses in trial.courses.values()}
            assert len(results) == 1
            assert trial.rows / (trial.rows + trial.closings) == pytest.approx(30 / 31, abs=0.01)

    def test_they_take_nothing_out(self) -> None:
        left, right = (parse_workload(name, 20) for name in pwjoin_useless.STREAMS)
        join = PunctuatedWindowJoin(5, 5)
        for element in join_input(left, right, seed=1):
            join.process(element)
        assert (join.counters.purged, join.counters.dropped) == (0, 0)
        assert join.counters.results > 0


def test_punctuations_if_both_streams_close() -> None:
    """Figure 11: the claim holds."""
    for figure in (kept("pw-11"), pwjoin_punctuations.measure_both_close(0.2)):
        assert [claim.verdict for claim in figure.claims] == [HOLDS]


def test_punctuations_if_one_stream_closes() -> None:
    """Figure 12: both claims hold."""
    for figure in (kept("pw-12"), pwjoin_punctuations.measure_one_closes(0.2)):
        assert [claim.verdict for claim in figure.claims] == [HOLDS, HOLDS]


def test_a_number_is_read_before_the_time_of_each_step() -> None:
    workload = parse_workload("cluster-asc-1", 40)
    elements = join_input(workload, workload, seed=1)
    join = PunctuatedWindowJoin(None, None)
    seen = sampled(join, elements, 0.1, lambda: join.counters.inserts + join.counters.dropped)
    rows = [each.time for each in elements if not isinstance(each, Closing)]
    steps = range(1, len(seen) + 1)
    assert seen == [sum(time < 0.1 * step for time in rows) for step in steps]
