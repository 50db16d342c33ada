"""The ends of all streams of a random pipeline, and state that stays although one of its bounds ends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from endmark.metrics import sample
from endmark.pipeline import Pipeline
from endmark.pipeline.boundedness import Bound, State, states
from support.formats import said
from support.graph_values import USUAL
from support.graph_world import TIME
from support.verify_histories import stamp
from support.verify_world import Record, promise

FAR, FOR_EVER = 100_000_000, 10**12  # seconds behind the beginning of a world
_OPERATORS = {"rows": "join", "groups": "aggregate", "seen values": "deduplicate"}


@dataclass(frozen=True)
class Ending:
    """The way in which all streams of a pipeline end. None of them has changes of a database.

    Args:
        closes: whether streams that have punctuations promise that no row comes any more.
        passes: whether all streams come to a far time.
    """

    closes: bool
    passes: bool

    def records(self, pipeline: Pipeline, partitions: Mapping[str, int]) -> list[Record]:
        """Return the punctuations that say it in every partition; these are counted by topic."""
        found: list[Record] = []
        for declared in (pipeline.streams[name] for name in pipeline.read_streams):
            last = FOR_EVER if declared.event_time.ahead is None else FAR
            patterns: list[dict[str, Any]] = []
            if self.passes:
                patterns.append({TIME: {"between": {"to": USUAL.instant(last)}}})
            if self.closes:
                patterns += [{column: {"anything": True}} for column in declared.punctuated_on[:1]]
            for home in range(partitions[declared.topic]):
                promised = (replace(promise("", each, home), topic=declared.topic) for each in patterns)
                found += [replace(record, timestamp=stamp(FAR)) for record in promised]
        return said(found, pipeline.streams)

    def left_behind(self, pipeline: Pipeline, reports: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        """Yield the state that has rows although one of its bounds has come to pass.

        Args:
            pipeline: the pipeline, whose streams have ended.
            reports: the reports of all buckets on the last batch.
        """
        samples = Counter[str]()
        for report in reports:
            samples.update(report["samples"])
        for state in states(pipeline):
            operator = _OPERATORS.get(state.holds)
            if operator is None or not any(self._brings(pipeline, state, each) for each in state.bounded_by):
                continue
            names = [sample("state_rows", operator=operator, stream=state.input)]
            if operator == "join":
                names += [
                    sample("pending_punctuations", stream=state.input, waits_for=waits_for)
                    for waits_for in ("closing", "window")
                ]
            yield from (f"{name}: {samples[name]}, but {state}" for name in names if samples[name])

    def _brings(self, pipeline: Pipeline, state: State, bound: Bound) -> bool:
        """Return whether the ends of streams bring a bound of some state about."""
        inputs = {*bound.closed_by, *bound.progress_of}
        if state.holds == "groups" or not inputs <= pipeline.inputs.keys():
            # Groups and the next stage wait for rows, and these for any stream.
            every = (pipeline.streams[name] for name in pipeline.read_streams)
            return self.closes and self.passes and all(each.punctuated_on for each in every)
        closing = [name for given in bound.closed_by for name in pipeline.flow.members_of(given)]
        ended = self.closes and all(pipeline.streams[name].punctuated_on for name in closing)
        return (ended or not closing) and (self.passes or not bound.progress_of)
