"""The definition of groups by another key, and of groups of final groups, batch by batch, in DuckDB."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Self

import pyarrow as pa

from endmark.pipeline import Pipeline
from endmark.types import JoinType
from endmark.verify.groups.measures import expression, over
from endmark.verify.session import Session, name, names, text
from support.bucket_tasks import Tables
from support.hashable_rows import hashable_row
from support.verify_places import schema_of

Row = dict[str, Any]
Rows = set[tuple[Any, ...]]


def present(pipeline: Pipeline) -> list[str]:
    """The streams that have a row in every result."""
    if pipeline.join is None:
        return list(pipeline.sides)
    return {
        JoinType.INNER: ["items", "bids"],
        JoinType.LEFT: ["items"],
        JoinType.RIGHT: ["bids"],
        JoinType.FULL: [],
        JoinType.SEMI: ["items"],
    }[pipeline.join.type]


class Definition:
    """All rows that are grouped, and all announced patterns so far, in DuckDB.

    Args:
        session: the session, which has no other definition.
        pipeline: the pipeline.
        takes: the kind of the rows that are grouped.
        columns: the SQL of each column of the group key.
        measures: the SQL of each measure.
    """

    def __init__(
        self,
        session: Session,
        pipeline: Pipeline,
        takes: str,
        columns: Mapping[str, str],
        measures: Mapping[str, str],
    ) -> None:
        self._session = session
        self._pipeline = pipeline
        self._takes = takes
        self._schema = schema_of(pipeline, takes)
        none = self._schema.empty_table()
        session.run_on(none, "CREATE TABLE came_in AS SELECT *, 0 AS came FROM arriving")
        self.columns = columns
        self._measures = [f"{sql} AS {name(column)}" for column, sql in measures.items()]
        self._final: list[str] = []

    @classmethod
    def of_results(cls, session: Session, pipeline: Pipeline) -> Self:
        """The definition of a pipeline's groups of results."""
        aggregate = pipeline.groups[0].aggregate
        columns = {result_name(pipeline, each): _value(pipeline, each) for each in aggregate.by}
        measures = {column: expression(pipeline, each) for column, each in aggregate.measures.items()}
        return cls(session, pipeline, "results", columns, measures)

    @classmethod
    def of_groups(cls, session: Session, pipeline: Pipeline) -> Self:
        """The definition of a pipeline's groups of final groups."""
        [rollup] = pipeline.rollups
        types = rollup.of.columns()
        measures = {column: over(each, types) for column, each in rollup.aggregate.measures.items()}
        return cls(
            session, pipeline, rollup.of.final_role, {each: name(each) for each in rollup.key}, measures
        )

    def batch(self, number: int, found: Tables, patterns: list[Row]) -> tuple[Rows, Rows]:
        """The rows that a batch must add to the table of final groups, and to that of groups so far.

        Args:
            number: the number of the batch.
            found: the rows that the batch has added to the table of rows that are grouped.
            patterns: the patterns that the batch has announced.
        """
        rows = pa.Table.from_pylist(found[self._takes], self._schema)
        self._session.run_on(rows, "INSERT INTO came_in SELECT *, $number FROM arriving", number=str(number))
        before = " OR ".join(self._final) or "false"
        self._final += [sql for row in patterns if (sql := self._closing(row["punctuation"]))]
        now = " OR ".join(self._final) or "false"
        told = self._session.run(
            "SELECT * EXCLUDE (came), $now AS final FROM ("
            "SELECT $by, $measures, max(came) AS came FROM came_in GROUP BY $of"
            ") WHERE NOT coalesce($before, false) AND (came = $number OR coalesce($now, false))",
            by=", ".join(f"{value} AS {name(column)}" for column, value in self.columns.items()),
            of=", ".join(self.columns.values()),
            measures=", ".join(self._measures),
            now=f"coalesce({now}, false)",
            before=before,
            number=str(number),
        )
        late = self._session.run(
            "SELECT count(*) AS n FROM (SELECT $by, came FROM came_in) WHERE came = $number AND ($before)",
            by=", ".join(f"{value} AS {name(column)}" for column, value in self.columns.items()),
            number=str(number),
            before=before,
        )
        assert late[0]["n"] == 0, "a row of a final group"
        groups = [dict(list(row.items())[:-1]) for row in told if row["final"]]
        return rows_of(groups), rows_of(told)

    def _closing(self, written: str) -> str | None:
        """The condition on groups that a pattern makes final; `None` if it makes none final."""
        # A column of the join key is never null in a stream that is there, so all of its values are all rows.
        whole = {f"{stream}_{column}" for stream in present(self._pipeline) for column in self._pipeline.key}
        patterns = {
            column: pattern
            for column, pattern in json.loads(written).items()
            if not (column in whole and pattern == {"between": {}})
        }
        conditions = []
        for column, pattern in patterns.items():
            group = self._group_column(column)
            if group is None:
                return None
            conditions.append(_condition(name(group), pattern))
        return " AND ".join(conditions) or "true"

    def _group_column(self, column: str) -> str | None:
        """The column of the group key that is equal to a column of results."""
        if column in self.columns:
            return column
        stream, _, rest = column.partition("_")
        if rest not in self._pipeline.key or stream not in present(self._pipeline):
            return None
        same = [f"{other}_{rest}" for other in present(self._pipeline)]
        return next((found for found in [rest, *same] if found in self.columns), None)


def _condition(column: str, pattern: dict[str, Any]) -> str:
    ((kind, value),) = pattern.items()
    if kind == "between":
        signs = {"from": ">=", "from_open": ">", "to": "<=", "to_open": "<"}
        bounds = [
            f"{column} {signs[f'{end}_open' if value.get(f'{end}_open') else end]} {text(str(value[end]))}"
            for end in ("from", "to")
            if end in value
        ]
        return f"({' AND '.join([f'{column} IS NOT NULL', *bounds])})"
    listed = [value] if kind == "equals" else value
    return f"{column} IN ({', '.join(text(str(each)) for each in listed)})"


def rows_of(rows: list[Row]) -> Rows:
    """Return rows of a table as a set; each must be there once."""
    counted = [hashable_row(row.values()) for row in rows]
    assert len(set(counted)) == len(counted)
    return set(counted)


def _value(pipeline: Pipeline, reference: str) -> str:
    """The SQL of a column of the group key."""
    if "." in reference:
        return name(result_name(pipeline, reference))
    return f"coalesce({names([f'{stream}_{reference}' for stream in pipeline.shown])})"


def result_name(pipeline: Pipeline, reference: str) -> str:
    """The name in tables of groups of a column of the group key."""
    if reference == "sellers.seller_id":
        return f"{pipeline.stream_of('sellers')}_seller_id"
    return reference.replace(".", "_")
