"""A model of the rate on more executors, from the tasks that Spark's event log has of one executor.

Stages run one after the other. Each executor runs one task at a time, and Spark gives the next task to the
executor that is free first. So a stage takes at least as long as its longest task, and a batch at least as
long as the time in which no task runs.
"""

from __future__ import annotations

import heapq
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple


class Span(NamedTuple):
    """Some batches, as the event log has them.

    Args:
        idle: the seconds in which no task ran.
        shuffled: the bytes that tasks wrote to a shuffle.
        stages: the seconds of each task in the order of their starts, by stage.
    """

    idle: float
    shuffled: int
    stages: list[list[float]]


def between(events: Path, begin: float, end: float) -> Span:
    """Return what happened in a span of time. A task counts where it ends.

    Args:
        events: the directory with a job's event log.
        begin, end: the span, in seconds since 1970.
    """
    spans, shuffled = list[tuple[float, float]](), 0
    stages: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for line in _lines(events):
        event = json.loads(line)
        if event["Event"] == "SparkListenerTaskEnd":
            started, ended = (event["Task Info"][f"{name} Time"] / 1000 for name in ("Launch", "Finish"))
            if begin < ended <= end:
                shuffled += event["Task Metrics"]["Shuffle Write Metrics"]["Shuffle Bytes Written"]
                stages[event["Stage ID"]].append((started, ended - started))
            spans.append((max(started, begin), min(ended, end)))
    idle, busy_until = 0.0, begin
    for started, ended in sorted(span for span in spans if span[0] < span[1]):
        idle += max(0.0, started - busy_until)
        busy_until = max(busy_until, ended)
    tasks = [[seconds for _, seconds in sorted(stages[stage])] for stage in sorted(stages)]
    return Span(idle + end - busy_until, shuffled, tasks)


def predicted_seconds(span: Span, executors: int) -> float:
    """Return the seconds that the batches of a span with one executor take with more of them."""
    return span.idle + sum(_stage_seconds(tasks, executors) for tasks in span.stages)


def _stage_seconds(tasks: Sequence[float], executors: int) -> float:
    free_at = [0.0] * executors
    for seconds in tasks:
        heapq.heapreplace(free_at, free_at[0] + seconds)
    return max(free_at)


def _lines(events: Path) -> Iterator[str]:
    for file in events.iterdir():
        with file.open() as lines:
            yield from lines
