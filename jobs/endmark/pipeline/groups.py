"""The aggregates of a pipeline: the columns of their groups, and what makes a group final."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from endmark.pipeline.tables import FINAL, final_role, running_role
from endmark.types import ColumnType

if TYPE_CHECKING:
    from endmark.pipeline.model import Pipeline
    from endmark.pipeline.rollup import Rollup
    from endmark.pipeline.steps.aggregate import Aggregate

RUNNING = {FINAL: ColumnType.BOOLEAN, "batch": ColumnType.LONG}  # the last columns of running groups


@dataclass(frozen=True, eq=False)
class Groups(ABC):
    """The groups of one aggregate.

    Args:
        pipeline: the pipeline.
        step: the name of the step.
        aggregate: the aggregate.
    """

    pipeline: Pipeline
    step: str
    aggregate: Aggregate

    @property
    @abstractmethod
    def key(self) -> tuple[str, ...]:
        """The columns of the group key, by their names in tables."""

    @abstractmethod
    def columns(self) -> dict[str, ColumnType]:
        """Return the columns of the groups: the group key, then the measures."""

    @property
    @abstractmethod
    def equals(self) -> dict[str, str]:
        """The columns of results that equal a column of the group key in every result, each with that one."""

    @property
    @abstractmethod
    def end_by_time(self) -> bool:
        """True if progress can make groups final. Groups by a join key are final with the keys."""

    @property
    def source(self) -> str:
        """The step whose rows the aggregate takes, or the stream."""
        (given,) = self.pipeline.steps[self.step].inputs
        return given

    @property
    def takers(self) -> tuple[Groups, ...]:
        """The aggregates of these groups, which take the final ones."""
        return ()

    @property
    def field(self) -> str:
        """The field of the pipeline file that has the aggregate."""
        return f"steps.{self.step}.aggregate"

    @property
    def final_role(self) -> str:
        """The kind of the rows of final groups."""
        return final_role(self.step)

    @property
    def running_role(self) -> str:
        """The kind of the rows of groups so far."""
        return running_role(self.step)

    @property
    def is_running(self) -> bool:
        """True if a table or topic has the groups so far."""
        return self.running_role in self.pipeline.outputs.roles

    @property
    def is_final(self) -> bool:
        """True if a table or topic has the final groups, or another aggregate takes them."""
        return self.final_role in self.pipeline.outputs.roles or bool(self.takers)

    @property
    def needs_final(self) -> bool:
        """True if groups must be final, since nothing has them before, or another aggregate takes them."""
        return not self.is_running or bool(self.takers)

    def running_columns(self) -> dict[str, ColumnType]:
        """Return the columns of the table of groups so far: those of a group, `final` and `batch`."""
        return self.columns() | RUNNING

    @property
    def closers(self) -> dict[str, tuple[str, ...]]:
        """The streams whose patterns make groups final, each with the columns that its patterns restrict.

        These patterns do not match results without a row of the stream. So there must be none, or one group
        of them.
        """
        pipeline, found = self.pipeline, dict[str, tuple[str, ...]]()
        for stream in pipeline.last_stage.promises.streams:
            stage = pipeline.stage_of(stream)
            behind = pipeline.stages[len(stage.before) + 1 :]
            if not all(each.announces for each in (stage, *behind)):
                continue
            promised = pipeline.inputs[stream].promised_on
            own = {
                column
                for column in promised
                if stage.promises.restricted_column(stream, column) in self.equals
            }
            restricted = pipeline.restricted(stream, own)
            # A semi join has a row of both streams for each result, which a later join may lack.
            hidden = stream not in pipeline.shown
            semi = hidden and all(each.derived in each.present_inputs for each in behind)
            if restricted and (semi or self.is_in_all(stream)):
                found[stream] = restricted
        return found

    @property
    def times(self) -> dict[str, tuple[str, ...]]:
        """The streams whose progress makes groups final, each with its derived times in the group key."""
        if not self.end_by_time:
            return {}
        stage = self.pipeline.last_stage
        found = {
            stage.timed_by(given): tuple(column for column, name in times.names if name in self.equals)
            for given, times in self.pipeline.derived_times.items()
        }
        return {stream: names for stream, names in found.items() if names and self.is_in_all(stream)}

    def is_in_all(self, stream: str) -> bool:
        """Return whether results without a row of a stream make no group, or one group at most."""
        return stream in self.pipeline.present or self._has_only(stream)

    @abstractmethod
    def _has_only(self, stream: str) -> bool:
        """Return whether all columns of the group key of results are those of a stream."""


@dataclass(frozen=True, eq=False)
class ResultGroups(Groups):
    """The groups of an aggregate of results."""

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the group key, by their names in tables."""
        return tuple(self.references)

    @cached_property
    def references(self) -> dict[str, str]:
        """The columns of the group key by their names in tables, each with its reference in the file."""
        return {self._name(reference): reference for reference in self.aggregate.by}

    def _name(self, reference: str) -> str:
        pipeline = self.pipeline
        if reference in pipeline.key:
            return reference
        origin, column = pipeline.references.resolved(reference)
        if pipeline.join is None and origin in pipeline.last_stage.inputs and column in pipeline.key:
            return column
        return pipeline.references.result_column(reference)

    def columns(self) -> dict[str, ColumnType]:
        """Return the columns of the groups: the group key, then the measures."""
        pipeline = self.pipeline
        columns = {
            name: pipeline.key_types[name] if name in pipeline.key else pipeline.references.type_of(reference)
            for name, reference in self.references.items()
        }
        for name, measure in self.aggregate.measures.items():
            of = None if measure.column is None else pipeline.references.type_of(measure.column)
            columns[name] = ColumnType.LONG if of is None else measure.kind(of)
        return columns

    @property
    def regroups(self) -> bool:
        """True if the groups have another key than the results, and so are made in a stage of their own."""
        return set(self.key) != set(self.pipeline.key)

    @property
    def sources(self) -> dict[str, tuple[str, ...]]:
        """The columns of results that each column of the group key is made of: the first that is not null."""
        pipeline, found = self.pipeline, dict[str, tuple[str, ...]]()
        stage = pipeline.last_stage
        for name, reference in self.references.items():
            if name in pipeline.key:
                # A column of the join key is that of a row that is there.
                number, there = pipeline.key.index(name), stage.present_inputs[:1] or stage.shown_inputs
                found[name] = tuple(stage.key_columns(given)[number] for given in there)
            else:
                found[name] = (pipeline.references.result_column(reference),)
        return found

    @property
    def equals(self) -> dict[str, str]:
        """The columns of results that equal a column of the group key in every result, each with that one."""
        sources = {name: columns for name, columns in self.sources.items() if len(columns) == 1}
        return {
            equal: name
            for name, (source,) in sources.items()
            for equal in self.pipeline.last_stage.equal_columns(source)
        }

    @property
    def end_by_time(self) -> bool:
        """True if progress can make groups final. Groups by a join key are final with the keys."""
        return self.pipeline.join is None or self.regroups

    @property
    def takers(self) -> tuple[Rollup, ...]:
        """The aggregates of these groups, which take the final ones."""
        return tuple(rollup for rollup in self.pipeline.rollups if rollup.of.step == self.step)

    def origins(self) -> list[tuple[str, str]]:
        """Return the columns of the group key, each with its origin. That of the join key is a stream."""
        pipeline, found = self.pipeline, list[tuple[str, str]]()
        for reference in self.references.values():
            if reference in pipeline.key:
                # In a full join, it is that of the row that is there, which no pattern restricts.
                found += [(stream, reference) for stream in pipeline.present[:1]] or [("", reference)]
                continue
            found.append(pipeline.references.asked_column(reference))
        return found

    def _has_only(self, stream: str) -> bool:
        return all(origin == stream for origin, _ in self.origins())
