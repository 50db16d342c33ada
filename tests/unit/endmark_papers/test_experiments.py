"""The committed results are what the experiments find, and what the papers claim."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from endmark.punctuation.pattern import Equals
from endmark_feed.papers.names import parse_workload
from endmark_papers.algorithms.contract import Announced, Closing, Counters, Element, Output, Row, Side
from endmark_papers.experiments import counters, pages, punctuations, window_state
from endmark_papers.experiments.catalogue import Experiment, Results, run_experiments
from endmark_papers.experiments.page import render
from endmark_papers.experiments.report import Spread, Table
from endmark_papers.experiments.streams import join_input

DOCS = Path(__file__).parents[3] / "docs" / "operators"


@pytest.fixture(scope="module")
def results() -> Results:
    return Results.model_validate_json((DOCS / "results.json").read_text())


class Echo:
    """A join that holds one row more with every element, and announces what the left side closes."""

    def __init__(self) -> None:
        self.counters = Counters()

    def process(self, element: Element) -> list[Output]:
        self.counters.hold(1)
        if isinstance(element, Closing) and element.side is Side.LEFT:
            return [Announced(element.pattern)]
        return []


def test_counters_are_as_committed(results: Results) -> None:
    assert counters.measure() == results.counters


def test_a_page_count_is_as_committed(results: Results) -> None:
    """One cheap cell of the others: all of them take minutes."""
    assert results.pages
    [found] = pages.measure(kinds=("aligned",), exponents=(0.0,), seeds=range(1, 2))
    committed = results.pages[0]
    assert (found.model, found.paper, found.meshjoin) == (
        committed.model,
        committed.paper,
        committed.meshjoin,
    )
    assert committed.counted.least <= found.counted.mean <= committed.counted.most


def test_the_page_is_written_from_the_results(results: Results) -> None:
    text = (DOCS / "README.md").read_text()
    assert render(text, results) == text, "run make papers"
    for name in [*results.tables(), "algorithms", "deviations"]:
        assert f"<!-- begin {name} -->" in text


def test_algorithms_agree_on_results(results: Results) -> None:
    assert results.counters
    found = {name: counts["results"] for name, counts in results.counters.stream_joins.items()}
    windowed = {found.pop("WJoin"), found.pop("PWJoin")}
    assert len(windowed) == len(set(found.values())) == 1
    lookups = {(counts["results"], counts["misses"]) for counts in results.counters.lookup_joins.values()}
    assert len(lookups) == 1


def test_the_window_state_is_as_in_figure_8(results: Results) -> None:
    assert results.window_state
    saved = {each.window_seconds: each.saved_percent.mean for each in results.window_state}
    assert saved == {
        1.0: pytest.approx(21, abs=3),
        5.0: pytest.approx(45, abs=3),
        15.0: pytest.approx(75, abs=3),
    }


def test_the_punctuations_are_as_in_figures_11_and_12(results: Results) -> None:
    """A share f closed on both sides: f² of the values by both, 2f - f² by either."""
    assert results.punctuations
    both, one = results.punctuations.both_close, results.punctuations.one_closes
    for share in (0.25, 0.5, 0.75, 1.0):
        early, late = both["PWJoin strict"].after[share].mean, both["PJoin"].after[share].mean
        assert early == pytest.approx(500 * (2 * share - share**2), abs=10)
        assert late == pytest.approx(500 * share**2, abs=10)
    assert one["PWJoin strict"].after[1.0].mean == pytest.approx(500, rel=0.04)
    assert one["PJoin"].after[1.0].most == 0


def test_the_page_model_is_within_5_percent(results: Results) -> None:
    assert results.pages
    assert len(results.pages) == 8
    assert all(abs(each.error_percent) < 5 for each in results.pages)


def test_both_streams_are_one_input_in_order_of_time() -> None:
    left, right = parse_workload("cluster-asc-3", 20), parse_workload("punct-asc-5-40", 20)
    elements = join_input(left, right, seed=4)
    assert [element.time for element in elements] == sorted(element.time for element in elements)
    for side, workload, seed in ((Side.LEFT, left, 8), (Side.RIGHT, right, 9)):
        assert [element for element in elements if element.side is side] == [
            Closing(side, Equals(event.key), event.seconds)
            if event.closes
            else Row(side, event.key, event.seconds, event.serial)
            for event in workload.events(seed)
        ]


def test_state_is_averaged_over_the_middle_half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_state, "WindowJoin", lambda *_: Echo())
    monkeypatch.setattr(window_state, "PunctuatedWindowJoin", lambda *_: Echo())
    elements = len(
        join_input(parse_workload("punct-asc-100-40", 4), parse_workload("punct-asc-100-40", 4), 1)
    )
    for each in window_state.measure(range(1, 2), values=4):
        # The rows held are 1, 2, 3, ...
        assert each.wjoin_rows.mean == pytest.approx((elements + 1) / 2, abs=1)
        assert each.wjoin_rows == each.pwjoin_rows
        assert each.saved_percent.most == 0


def test_announcements_are_counted_until_each_part_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(punctuations, "PJoin", lambda **_: Echo())
    seeds = range(1, 3)
    found = punctuations.measure(seeds, values=20).both_close["PJoin"]
    workloads = [parse_workload(name, 20) for name in punctuations.BOTH_CLOSE]
    inputs = [join_input(workloads[0], workloads[1], seed) for seed in seeds]
    for share in punctuations.FRACTIONS:
        counts = [
            sum(
                isinstance(element, Closing)
                and element.side is Side.LEFT
                and element.time <= share * run[-1].time
                for element in run
            )
            for run in inputs
        ]
        assert found.after[share] == Spread.of(counts, 1)


def test_only_the_experiments_asked_for_run() -> None:
    said: list[str] = []
    found = run_experiments([Experiment.COUNTERS], said.append)
    assert said == ["running counters"]
    assert found.model_dump(exclude_none=True).keys() == {"counters"}
    assert found.tables().keys() == {"stream-joins", "lookup-joins"}


def test_a_spread_is_rounded() -> None:
    spread = Spread.of([1, 2, 1_234.56], 1)
    assert (spread.mean, spread.least, spread.most) == (412.5, 1, 1234.6)
    assert spread.text(0) == "412 (1 to 1,235)"


def test_a_table_in_markdown() -> None:
    table = Table("Titles are headings of the page", ["", "a"], [["x", "1"], ["y", "2"]])
    assert table.markdown() == "|  | a |\n| --- | ---: |\n| x | 1 |\n| y | 2 |"


def test_the_command_prints_what_is_committed() -> None:
    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "endmark_papers", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout

    committed = json.loads((DOCS / "results.json").read_text())
    assert json.loads(run("experiments", "counters", "--json")) == {"counters": committed["counters"]}
    assert "HYBRIDJOIN" in run("experiments", "counters")
