"""The engine's join gives the results of the papers' algorithms, so that its times are of the same work."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from endmark.operators.stream_join.presets import Preset, policy
from endmark_feed.papers.names import parse_workload
from endmark_papers.algorithms.contract import ReferenceJoin
from endmark_papers.algorithms.mjoin import MetadataJoin
from endmark_papers.algorithms.mjoin_options import MJoinOptions
from endmark_papers.algorithms.pwjoin import PunctuatedWindowJoin
from endmark_papers.algorithms.wjoin import WindowJoin
from endmark_papers.experiments.streams import join_input
from endmark_papers.figures.engine import Batch, Course, EngineJoin, race, unpunctuated
from endmark_papers.figures.mjoin_streams import PATTERNS, news


@pytest.mark.parametrize(
    ("preset", "join"), [(Preset.WJOIN, WindowJoin(1, 1)), (Preset.PWJOIN, PunctuatedWindowJoin(1, 1))]
)
def test_windowed_joins_agree(preset: Preset, join: ReferenceJoin) -> None:
    workload = parse_workload("punct-asc-30-40", 15)
    elements = join_input(workload, workload, seed=1)
    for element in elements:
        join.process(element)
    engine = EngineJoin(policy(preset, windowed=True), (1, 1))

    course = engine.run(engine.batches(elements, 100))

    assert course.results[-1] == join.counters.results > 0
    assert len(course.seconds) == len(course.held) == -(-len(elements) // 100)
    assert course.seconds == sorted(course.seconds)
    plain = engine.run(unpunctuated(engine.batches(elements, 100)))
    assert plain.results == course.results
    assert plain.written[-1] < course.written[-1]
    assert (plain.held[-1] > course.held[-1]) is (preset is Preset.PWJOIN)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_mjoin_agrees(pattern: str) -> None:
    elements = news(pattern, 20, 1)
    join = MetadataJoin(MJoinOptions(one_to_many=True))
    for element in elements:
        join.process(element)
    engine = EngineJoin(policy(Preset.MJOIN, windowed=False), unique=True)

    course = engine.run(engine.batches(elements, 11))

    assert course.results[-1] == join.counters.results == 20 * 10
    assert course.held[-1] == join.counters.state_rows == 0


def test_contenders_take_turns() -> None:
    workload = parse_workload("punct-asc-30-40", 2)
    engine = EngineJoin()
    batches = engine.batches(join_input(workload, workload, seed=1), 50)
    turns: list[str] = []

    class Noted(EngineJoin):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def run(self, batches: Sequence[Batch]) -> Course:
            turns.append(self.name)
            return super().run(batches)

    found = race({name: (Noted(name), batches) for name in ("a", "b")}, repeats=2)

    assert turns == ["a", "b"] * 3
    assert {name: len(courses) for name, courses in found.items()} == {"a": 2, "b": 2}
