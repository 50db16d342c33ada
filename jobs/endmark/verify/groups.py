"""Makes the expected groups, by the definitions of docs/semantics.md.

Groups by the join key are final with their key. A group by other columns is final if an announced pattern on
these columns matches it, or if a stream has ended that has a row in every result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from endmark.pipeline import Aggregate, Pipeline
from endmark.types import JoinType
from endmark.verify.join_sides import key_column
from endmark.verify.measures import expression
from endmark.verify.running_groups import expect_running
from endmark.verify.session import Session, name, names, text

_GROUPS = """
CREATE TABLE $groups AS
SELECT $by, $measures FROM (SELECT *, $found_key FROM ($results)) SEMI JOIN $final USING ($key)
GROUP BY $key
"""

# The results of these groups, or their end, depend on when a partition was found idle. No row of theirs is
# compared.
_UNSURE = """
CREATE TABLE unsure_groups AS
SELECT DISTINCT $named FROM (SELECT $by FROM uncertain_results) UNION
SELECT DISTINCT $named FROM (SELECT $by FROM expected_results) WHERE ($perhaps) AND NOT ($final)
"""

_OTHER = """
CREATE TABLE other_groups AS FROM (
    SELECT *, ($final) AS final
    FROM (SELECT $by, $measures FROM expected_results GROUP BY $of)
) g WHERE NOT EXISTS (FROM unsure_groups u WHERE $same)
"""

_SURE = """
CREATE OR REPLACE TABLE actual_groups AS FROM actual_groups g
WHERE NOT EXISTS (FROM unsure_groups u WHERE $same)
"""


def expect_groups(session: Session, pipeline: Pipeline) -> None:
    """Make `expected_groups`, `uncertain_groups` and `expected_running`, if the pipeline has groups.

    If partitions can be idle, `uncertain_groups` has rows that may or may not be in the table. This needs the
    tables of `expect` and `expect_punctuations`.
    """
    if pipeline.aggregate is None:
        return
    if pipeline.regroups:
        _by_other_columns(session, pipeline, pipeline.aggregate)
    else:
        _by_key(session, pipeline, pipeline.aggregate)


def _by_key(session: Session, pipeline: Pipeline, aggregate: Aggregate) -> None:
    measures = [
        f"{expression(pipeline, measure)} AS {name(column)}" for column, measure in aggregate.measures.items()
    ]
    shown = pipeline.result_columns()
    found_key = []
    for column in pipeline.key:
        both = names([found for stream in pipeline.sides if (found := f"{stream}_{column}") in shown])
        found_key.append(f"coalesce({both}) AS {name(key_column(column))}")
    fragments = {
        "by": ", ".join(f"{name(key_column(column))} AS {name(column)}" for column in pipeline.group_key),
        "measures": ", ".join(measures),
        "found_key": ", ".join(found_key),
        "key": names([key_column(column) for column in pipeline.key]),
    }
    if pipeline.running_columns():
        expect_running(session, named=names(list(pipeline.key)), **fragments)
    certain = "FROM expected_results"
    session.run(_GROUPS, groups="expected_groups", results=certain, final="final", **fragments)
    session.run(
        _GROUPS,
        groups="uncertain_groups",
        results=f"{certain} UNION ALL BY NAME FROM uncertain_results",
        final="(FROM possibly_final EXCEPT FROM final)",
        **fragments,
    )


def _by_other_columns(session: Session, pipeline: Pipeline, aggregate: Aggregate) -> None:
    columns = {column: _value(pipeline, reference) for column, reference in pipeline.group_key.items()}
    measures = [
        f"{expression(pipeline, measure)} AS {name(column)}" for column, measure in aggregate.measures.items()
    ]
    fragments = {
        "by": ", ".join(f"{value} AS {name(column)}" for column, value in columns.items()),
        "of": ", ".join(columns.values()),
        "measures": ", ".join(measures),
        "named": names(list(columns)),
        "final": _any_of(_closing(session, pipeline, "announced_patterns")),
        "perhaps": _any_of(_closing(session, pipeline, "uncertain_punctuations")),
        "same": " AND ".join(f"u.{name(each)} IS NOT DISTINCT FROM g.{name(each)}" for each in columns),
    }
    session.run(_UNSURE, **fragments)
    session.run(_OTHER, **fragments)
    session.run("CREATE TABLE expected_groups AS SELECT * EXCLUDE (final) FROM other_groups WHERE final")
    session.run("CREATE TABLE uncertain_groups AS FROM expected_groups LIMIT 0")
    if "groups" in pipeline.laid_out:
        session.run(_SURE, **fragments)
    if pipeline.running_columns():
        session.run("ALTER TABLE other_groups RENAME TO expected_running")


def _value(pipeline: Pipeline, reference: str) -> str:
    """The SQL of a column of the group key, over columns of results."""
    if reference not in pipeline.key:
        return name(pipeline.result_column(reference))
    return f"coalesce({names([f'{stream}_{reference}' for stream in pipeline.shown])})"


def _any_of(conditions: Iterator[str]) -> str:
    """The SQL of whether one of some conditions is true."""
    return f"coalesce({' OR '.join(conditions) or 'false'}, false)"


def _closing(session: Session, pipeline: Pipeline, table: str) -> Iterator[str]:
    """The conditions under which a group is closed by a pattern of a table, over columns of the group key."""
    # A column of the join key is never null in a stream that is there, so all of its values are all rows.
    whole = {f"{stream}_{column}" for stream in _in_all_results(pipeline) for column in pipeline.key}
    for row in session.run("SELECT DISTINCT punctuation FROM $table", table=table):
        patterns: dict[str, Any] = {
            column: pattern
            for column, pattern in json.loads(row["punctuation"]).items()
            if not (column in whole and pattern == {"between": {}})
        }
        if not patterns:
            yield "true"
            continue
        restricted = {_group_column(pipeline, column): pattern for column, pattern in patterns.items()}
        if None not in restricted:
            yield " AND ".join(
                _condition(name(str(column)), pattern) for column, pattern in restricted.items()
            )


def _in_all_results(pipeline: Pipeline) -> tuple[str, ...]:
    """The streams that have a row in every result."""
    if pipeline.join is None:
        return pipeline.sides
    left, *others = pipeline.sides
    return {
        JoinType.INNER: pipeline.sides,
        JoinType.LEFT: (left,),
        JoinType.RIGHT: tuple(others),
        JoinType.FULL: (),
        JoinType.SEMI: (left,),
    }[pipeline.join.type]


def _group_column(pipeline: Pipeline, column: str) -> str | None:
    """The column of the group key that a column of results equals in every result; `None` if none does."""
    everywhere = _in_all_results(pipeline)
    alike = {column}
    for key in pipeline.key:
        same = {f"{stream}_{key}" for stream in everywhere}
        if column in same:
            alike |= {key, *same}
    return next((found for found in pipeline.group_key if found in alike), None)


def _condition(column: str, pattern: dict[str, Any]) -> str:
    ((kind, value),) = pattern.items()
    if kind != "between":
        listed = [value] if kind == "equals" else value
        return f"{column} IN ({', '.join(text(str(each)) for each in listed)})"
    bounds = [f"{column} IS NOT NULL"]
    for end, sign in (("from", ">"), ("to", "<")):
        if end in value:
            equal = "" if value.get(f"{end}_open") else "="
            bounds.append(f"{column} {sign}{equal} {text(str(value[end]))}")
    return f"({' AND '.join(bounds)})"
