"""The rows that tables and topics of a pipeline get, by their kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.pipeline.fields import require_name
from endmark.pipeline.groups import RUNNING
from endmark.pipeline.steps.aggregate import AggregateStep
from endmark.pipeline.tables import (
    FINAL,
    RESERVED,
    Table,
    final_role,
    group_role,
    is_group_role,
    is_latest_role,
    is_running_role,
    is_step_role,
    latest_role,
    running_role,
    step_of,
    step_role,
)
from endmark.types import ColumnType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from endmark.pipeline.model import Pipeline


class Outputs:
    """The tables and topics of a pipeline, and the columns of their rows.

    The *role* of a table or topic is the kind of its rows: `results`, final or running groups of an
    aggregate, rows of a step in front of the results, or the newest rows of a stream.

    Args:
        pipeline: the pipeline.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def role_of(self, name: str, table: Table) -> str:
        """Return the kind of a table's rows: `results`, `groups`, `running`, or that of a step's rows."""
        source, flow = table.source or name, self._pipeline.flow
        field = f"tables.{name}.from" if table.source else f"tables.{name}"
        require_name({**self._pipeline.steps, **self._pipeline.streams}, source, field, "steps or streams")
        if isinstance(self._pipeline.steps.get(source), AggregateStep):
            return group_role(source, table.mode)
        if table.mode == "upsert" and flow.stands_before_joins(source):
            return latest_role(source)
        if table.mode != "append":
            raise ValueError(
                f"tables.{name}.mode: {table.mode} is for the groups of an aggregate; rows of {source} are "
                "never replaced, so leave it out"
            )
        return self._role_of_rows(source)

    def _role_of_rows(self, source: str) -> str:
        """Return the kind of the rows of a stream or of a step that is no aggregate."""
        return "results" if source == self._pipeline.flow.results else step_role(source)

    @property
    def tables_by_role(self) -> dict[str, Table]:
        """The tables of steps by the kind of their rows: first those of the last steps."""
        found = {self.role_of(name, table): table for name, table in self._pipeline.tables.items()}
        made = [
            role for step in self._pipeline.flow.aggregates for role in (final_role(step), running_role(step))
        ]
        last = [role for role in ("results", *made) if role in found]
        return {role: found[role] for role in [*last, *(role for role in found if role not in last)]}

    @property
    def directories(self) -> dict[str, str]:
        """The directory of each table under the warehouse, by the kind of its rows."""
        found = {self.role_of(name, table): name for name, table in self._pipeline.tables.items()}
        return {role: found[role] for role in self.tables_by_role} | {name: name for name in RESERVED}

    @property
    def topics(self) -> dict[str, str]:
        """The topics that rows are published to, by the kind of the rows."""
        return {
            self.published_role(step): published.topic for step, published in self._pipeline.publish.items()
        }

    def published_role(self, step: str) -> str:
        """Return the kind of the rows that the topic of a published step gets."""
        if isinstance(self._pipeline.steps.get(step), AggregateStep):
            return group_role(step, self._pipeline.publish[step].mode)
        return self._role_of_rows(step)

    @property
    def roles(self) -> frozenset[str]:
        """The kinds of rows that tables or topics get."""
        return frozenset([*self.tables_by_role, *self.topics])

    @property
    def step_roles(self) -> tuple[str, ...]:
        """The kinds of rows that tables and topics get of streams and steps in front of the last ones."""
        return tuple(filter(is_step_role, dict.fromkeys([*self.tables_by_role, *self.topics])))

    @property
    def shows_results(self) -> bool:
        """True if results are written to a table or published."""
        return "results" in self.roles

    def columns_of(self, role: str) -> dict[str, ColumnType]:
        """Return the columns of a table, given the kind of its rows."""
        if role == "results":
            return self._pipeline.result_columns()
        if is_group_role(role):
            groups = self._pipeline.groups_of(role)
            return groups.columns() if role == groups.final_role else groups.running_columns()
        return dict(self._behind(step_of(role)))

    def topic_columns(self, role: str) -> dict[str, ColumnType]:
        """Return the columns of a topic, given the kind of its rows. Headers have the number of the batch."""
        if is_running_role(role):
            return self._pipeline.groups_of(role).columns() | {FINAL: ColumnType.BOOLEAN}
        return self.columns_of(role)

    def _behind(self, name: str) -> list[tuple[str, ColumnType]]:
        """Return the columns of the rows of a stream or of a step in front of the results."""
        stage = self._pipeline.stage_with(name)
        return stage.columns.of_results if name == stage.steps.end else stage.columns.behind(name)

    def column_names(self) -> dict[str, list[str]]:
        """Return the names of columns by the field of each table and topic. A name may stand twice."""
        found = {
            f"tables.{self.directories[role]}": self._names(role, RUNNING) for role in self.tables_by_role
        }
        for step in self._pipeline.publish:
            found[f"publish.{step}"] = self._names(self.published_role(step), [FINAL])
        return found

    def _names(self, role: str, of_running: Iterable[str]) -> list[str]:
        """Return the names of columns, given the kind of rows and the further names of groups so far."""
        if role == "results":
            return [name for name, _ in self._pipeline.last_stage.columns.of_results]
        if is_group_role(role):
            groups = self._pipeline.groups_of(role)
            further = of_running if is_running_role(role) else ()
            return [*groups.key, *groups.aggregate.measures, *further]
        return [name for name, _ in self._behind(step_of(role))]

    def key_of(self, role: str) -> tuple[str, ...]:
        """Return the columns by which a table is upserted, given the kind of its rows; none if it is not."""
        table = self.tables_by_role.get(role)
        if table is None or table.mode != "upsert":
            return ()
        if not is_latest_role(role):
            return self._pipeline.groups_of(role).key
        stream, _ = self._pipeline.flow.path_to(step_of(role))
        return tuple(f"{stream}_{column}" for column in table.key)
