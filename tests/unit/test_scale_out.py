"""The figures of Spark's event log for `make bench-cluster`, and the rates that its model predicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cluster.stage_model import Span, between, predicted_seconds


def task(launch: float, finish: float, wrote: int, stage: int = 0) -> str:
    info = {"Launch Time": int(launch * 1000), "Finish Time": int(finish * 1000)}
    metrics = {"Shuffle Write Metrics": {"Shuffle Bytes Written": wrote}}
    ended = {"Event": "SparkListenerTaskEnd", "Stage ID": stage}
    return json.dumps({**ended, "Task Info": info, "Task Metrics": metrics})


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """The log of six tasks, in two files. The first ends before 10 s, and the last starts after 20 s."""
    before, *others = [
        task(7, 9, 1),
        task(9, 11, 2),
        task(12, 15, 4),
        task(13, 16, 8, stage=1),
        task(19, 22, 16),
        task(23, 24, 32),
    ]
    (tmp_path / "events_1").write_text(f"{before}\n" + json.dumps({"Event": "SparkListenerJobEnd"}) + "\n")
    (tmp_path / "events_2").write_text("\n".join(others) + "\n")
    return tmp_path


def test_idle_time_is_that_without_any_task(events: Path) -> None:
    assert between(events, 10, 20).idle == pytest.approx(1 + 3)  # from 11 to 12 s, and from 16 to 19 s


def test_a_task_counts_where_it_ends(events: Path) -> None:
    assert [between(events, *span).shuffled for span in ((10, 20), (0, 10), (20, 30), (11, 15))] == [
        14,
        1,
        48,
        4,
    ]


def test_a_span_without_tasks_is_idle(events: Path) -> None:
    assert between(events, 30, 35) == (5, 0, [])


def test_a_stage_has_the_seconds_of_its_tasks(events: Path) -> None:
    assert between(events, 10, 20).stages == [[2, 3], [3]]


def test_an_executor_that_is_free_takes_the_next_task() -> None:
    span = Span(0.5, 0, [[3, 1, 1, 1], [2]])
    assert [predicted_seconds(span, executors) for executors in (1, 2, 4, 8)] == [8.5, 5.5, 5.5, 5.5]
    assert predicted_seconds(Span(1, 0, [[1, 1, 4]]), 2) == 6  # the longest one comes last
