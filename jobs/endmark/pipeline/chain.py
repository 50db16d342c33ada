"""The entry under `streams` by which another pipeline reads what this one publishes.

The event time is that of the first stream that has a row in every result. In this time, results are out of
order. Take a join of X and Y, in the order of a topic's records. A result comes with the later of its two
rows. If this is a row of Y, it is at most Y's `lateness` older than the newest row of Y, and its partner of X
is at most X's window older than it. An earlier result has a row of X that is at most Y's window newer than
its row of Y, and so than the newest row of Y. So results are at most both windows and the `lateness` out of
order. A row that a lookup parks comes later by the time for which it may be parked.

A batch has no order of its own, and rows without a partner come with the batch that moves progress beyond
their window. So `spread` is added: the event time by which a stream may move on in one batch.

Groups become final in any order of time. A final group comes once, so its key is one that is unique.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from endmark.domain import Domain
from endmark.errors import ConfigError
from endmark.operators.stream_join.presets import Propagation
from endmark.pipeline.duration_words import as_in_files
from endmark.pipeline.fields import require_name
from endmark.pipeline.nullable_columns import columns_of_groups, columns_of_results, columns_of_rows
from endmark.pipeline.rollup import Rollup
from endmark.pipeline.steps.aggregate import AggregateStep
from endmark.pipeline.tables import FINAL, is_running_role
from endmark.types import ColumnType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from endmark.pipeline.groups import Groups
    from endmark.pipeline.model import Pipeline
    from endmark.pipeline.stage import Stage

FOR_EVER = timedelta(days=36_500)  # the longest duration that a file takes


@dataclass(frozen=True)
class ChainedStream:
    """A stream that another pipeline can declare.

    Args:
        name: the name of the step whose rows it has.
        topic: the topic.
        columns: the types of its columns, by name.
        time: the column of event time.
        lateness: the event time by which a row may be older than an earlier one.
        ahead: the bound `event_time.ahead`, which is that of the stream with the event time.
        punctuated_on: the columns that its punctuations restrict.
        skipped_on: the columns with nulls that punctuations restrict, too, and that no stream can declare.
        unique: the columns of which no two rows have the same values.
        of_groups: whether the rows are groups.
    """

    name: str
    topic: str
    columns: Mapping[str, ColumnType]
    time: str
    lateness: timedelta
    ahead: timedelta | None
    punctuated_on: tuple[str, ...] = ()
    skipped_on: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()
    of_groups: bool = False

    @property
    def entry(self) -> dict[str, Any]:
        """The entry under `streams`, as a pipeline file has it."""
        found: dict[str, Any] = {
            "topic": self.topic,
            "columns": {name: str(kind) for name, kind in self.columns.items() if not kind.many},
            "event_time": {"column": self.time, "lateness": as_in_files(self.lateness)},
        }
        if len(found["columns"]) < len(self.columns):
            found["extra"] = "ignore"
        if self.ahead != timedelta(hours=1):
            found["event_time"]["ahead"] = None if self.ahead is None else as_in_files(self.ahead)
        if self.punctuated_on:
            found["punctuated_on"] = list(self.punctuated_on)
        if self.unique:
            found["unique"] = list(self.unique)
        if self.skipped_on:
            found["quarantine"] = "off"
        return {self.name: found}

    @property
    def _repeats(self) -> str:
        if self.unique:
            return "its repeats are violations"
        if self.of_groups:
            return "the newest record of a group counts"
        return "docs/semantics/repeats.md has the step that drops repeats"

    def lines(self) -> Iterator[str]:
        """Yield the entry as YAML, with remarks."""
        entry = self.entry[self.name]
        yield f"# After a crash, a batch may come twice; {self._repeats}."
        yield "streams:"
        yield f"  {self.name}:"
        yield f"    topic: {self.topic}"
        yield "    columns:"
        yield from (f"      {name}: {_quoted(kind)}" for name, kind in entry["columns"].items())
        if "extra" in entry:
            yield "    # A stream has no columns with arrays."
            yield "    extra: ignore"
        times = ", ".join(f"{name}: {_yaml(value)}" for name, value in entry["event_time"].items())
        windows = "Windows and lateness of the pipeline that publishes, and how far a batch of it moves on."
        yield f"    # {'Groups come in any order of time.' if self.of_groups else windows}"
        yield f"    event_time: {{{times}}}"
        if self.lateness == FOR_EVER and not self.of_groups:
            yield "    # Its join has no window, so rows may be of any age: only punctuations free state."
        if self.punctuated_on:
            yield "    # Another key than that of the pipeline that publishes needs punctuation_scope: topic."
            yield f"    punctuated_on: [{', '.join(self.punctuated_on)}]"
        if self.unique:
            yield "    # A group is final once, so no two rows have the same key."
            yield f"    unique: [{', '.join(self.unique)}]"
        if self.skipped_on:
            nulls = ", ".join(self.skipped_on)
            yield f"    # Punctuations on {nulls} are dead letters, since these columns may be null."
            yield '    quarantine: "off"'  # a parser of YAML 1.1 takes `off` for false


def chained(pipeline: Pipeline, step: str | None, spread: timedelta) -> ChainedStream:
    """Return the stream of what a pipeline publishes of a step.

    Args:
        pipeline: the pipeline.
        step: the stream or step; `None` if only one is published.
        spread: the event time by which a stream may move on in one batch.

    Raises:
        ConfigError: the step is not published, or no column of its rows has an event time in each of them.
    """
    name = _published(pipeline, step)
    if isinstance(pipeline.steps.get(name), AggregateStep):
        return _of_groups(pipeline, name)
    topic = pipeline.publish[name].topic
    promised: dict[str, None] = {}
    if name == pipeline.flow.results or name in pipeline.flow.ends:
        is_last = name == pipeline.flow.results
        stage = pipeline.last_stage if is_last else pipeline.stage_with(name)
        stream, lateness = _timed_by(stage), _disorder(stage)
        promised = dict.fromkeys(_promised(stage)) if is_last else {}
        kinds = dict(columns_of_results(stage))
    else:
        stream, _ = pipeline.flow.path_to(name)
        lateness = _own_disorder(pipeline, stream)
        stage = pipeline.stage_of(stream)
        kinds = dict(columns_of_rows(stage, stream, pipeline.row_columns(name), stage.columns.behind(name)))
    declared = pipeline.inputs[stream].event_time
    return ChainedStream(
        name=name,
        topic=topic,
        columns=kinds,
        time=f"{stream}_{declared.column}",
        lateness=min(lateness + spread, FOR_EVER),
        ahead=declared.ahead,
        punctuated_on=tuple(column for column in promised if not kinds[column].nullable),
        skipped_on=tuple(column for column in promised if kinds[column].nullable),
    )


def _published(pipeline: Pipeline, step: str | None) -> str:
    there = pipeline.publish
    if not there:
        raise ConfigError(f"{pipeline.name} publishes nothing; name the step under publish")
    if step is None:
        if len(there) > 1:
            raise ConfigError(f"{pipeline.name} publishes {', '.join(there)}; name one of them")
        (step,) = there
    try:
        require_name(there, step, "chain", "steps that are published")
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return step


def _of_groups(pipeline: Pipeline, step: str) -> ChainedStream:
    """Return the stream of an aggregate's groups."""
    role = pipeline.outputs.published_role(step)
    groups = pipeline.groups_of(role)
    kinds = columns_of_groups(groups)
    times = [
        name
        for name, kind in kinds.items()
        if kind.domain is Domain.TIMESTAMP and not (kind.many or kind.nullable)
    ]
    if not times:
        raise ConfigError(
            f"steps.{step}: no column of its groups is a time that each of them has, and a stream needs one; "
            "add a measure such as the `max` of an event time"
        )
    of_events = _event_times(groups)
    time = next((name for name in times if name in of_events), times[0])
    has_nulls = any(kinds[name].nullable for name in groups.key)
    is_running = is_running_role(role)
    bounds = [stream.event_time.ahead for stream in pipeline.streams.values()]
    known = [bound for bound in bounds if bound is not None]
    # Any other time, such as a due date, may be in the future.
    is_bounded = time in of_events and len(known) == len(bounds)
    return ChainedStream(
        name=step,
        topic=pipeline.publish[step].topic,
        columns=kinds | ({FINAL: ColumnType.BOOLEAN} if is_running else {}),
        time=time,
        lateness=FOR_EVER,
        ahead=max(known) if is_bounded else None,
        unique=() if has_nulls or is_running else groups.key,
        of_groups=True,
    )


def _event_times(groups: Groups) -> set[str]:
    """Return the columns of groups whose values are event times of streams."""
    pipeline, measures = groups.pipeline, groups.aggregate.measures
    if isinstance(groups, Rollup):
        given = _event_times(groups.of)
        return {name for name in groups.key if name in given} | {
            name for name, measure in measures.items() if measure.column in given
        }
    found = set()
    for name, measure in measures.items():
        origin, column = pipeline.references.resolved(measure.column) if measure.column else ("", "")
        if origin in pipeline.inputs and column == pipeline.inputs[origin].event_time.column:
            found.add(name)
    return found


def _timed_by(stage: Stage) -> str:
    """Return the stream whose event time stands for that of results."""
    if not stage.present_inputs:
        raise ConfigError(
            f"{stage.field}: a full join has results without an event time of either side; publish rows in "
            "front of it, or choose another type"
        )
    return stage.timed_by(stage.present_inputs[0])


def _disorder(stage: Stage) -> timedelta:
    """Return the event time by which results may be older than an earlier one, if a batch is one record."""
    inputs = {given: _input_disorder(stage, given) for given in stage.inputs}
    if stage.join is None:
        (own,) = inputs.values()
        return own
    timed, *_ = stage.present_inputs
    windows = {given: stage.window_of(given) for given in inputs}
    first = windows.pop(timed)
    if first is None or any(window is None for window in windows.values()):
        return FOR_EVER
    others = [window + inputs[given] for given, window in windows.items() if window is not None]
    return max(inputs[timed], first + max(others))


def _input_disorder(stage: Stage, given: str) -> timedelta:
    own = _own_disorder(stage.pipeline, given) if given in stage.streams else timedelta(0)
    if stage.earlier is not None and given == stage.derived:
        own = _disorder(stage.earlier) + _parked(stage.pipeline, given)
    return min(own, FOR_EVER)


def _own_disorder(pipeline: Pipeline, stream: str) -> timedelta:
    members = [pipeline.streams[name] for name in pipeline.flow.members_of(stream)]
    return max(member.event_time.lateness for member in members) + _parked(pipeline, stream)


def _parked(pipeline: Pipeline, given: str) -> timedelta:
    """Return the time for which rows of an input may be parked, by all its lookups."""
    parks = (lookup.park for lookup in pipeline.lookups_of(given))
    return sum((park.delay * park.attempts for park in parks if park is not None), timedelta(0))


def _promised(stage: Stage) -> Iterator[str]:
    """Yield the columns of results that output punctuations restrict."""
    if stage.propagation is Propagation.NEVER:
        return
    promised = [column for given in stage.shown_inputs for column in stage.key_columns(given)]
    if stage.announces:
        promised += stage.promises.announced_columns
        # Progress is announced by the derived times of groups.
        times = stage.pipeline.derived_times.values()
        promised += [column for each in times for _, column in each.names]
    shown = dict(stage.columns.of_results)
    yield from (name for name in promised if name in shown)


def _yaml(value: str | None) -> str:
    return "null" if value is None else value


def _quoted(kind: str) -> str:
    return f'"{kind}"' if not kind.isalpha() else kind
