"""Makes the expected groups, by the definitions of docs/semantics.

Groups by the join key are final with their key. A group by other columns is final if an announced pattern on
these columns matches it, or if a stream has ended that has a row in every result.
"""

from __future__ import annotations

from endmark.pipeline import Pipeline
from endmark.pipeline.groups import ResultGroups
from endmark.verify.groups.measures import expression
from endmark.verify.groups.running_groups import expect_running
from endmark.verify.join.sides import key_column
from endmark.verify.promises.announced_patterns import matched
from endmark.verify.session import Session, name, names

_GROUPS = """
CREATE TABLE $table AS
SELECT $by, $measures FROM (SELECT *, $found_key FROM ($results)) SEMI JOIN $final USING ($key)
GROUP BY $key
"""

# The results of these groups, or their end, depend on when a partition was found idle. No row of theirs is
# compared.
_UNSURE = """
CREATE TABLE $unsure AS
SELECT DISTINCT $named FROM (SELECT $by FROM uncertain_results) UNION
SELECT DISTINCT $named FROM (SELECT $by FROM expected_results) WHERE ($perhaps) AND NOT ($final)
"""

_OTHER = """
CREATE TABLE $running AS FROM (
    SELECT *, ($final) AS final
    FROM (SELECT $by, $measures FROM expected_results GROUP BY $of)
) g WHERE NOT EXISTS (FROM $unsure u WHERE $same)
"""

_FINAL = "CREATE TABLE $expected AS SELECT * EXCLUDE (final) FROM $running WHERE final"
_NONE = "CREATE TABLE $uncertain AS FROM $expected LIMIT 0"

_SURE = """
CREATE OR REPLACE TABLE $actual AS FROM $actual g
WHERE NOT EXISTS (FROM $unsure u WHERE $same)
"""


def expect_groups(session: Session, pipeline: Pipeline) -> None:
    """Make the expected final groups and the expected groups so far of each aggregate of results.

    If partitions can be idle, some groups may or may not be in the table of final ones. They are in a table
    of their own. This needs the tables of `expect` and `expect_punctuations`.
    """
    for groups in pipeline.groups:
        if groups.regroups:
            _by_other_columns(session, groups)
        else:
            _by_key(session, groups)


def _tables(groups: ResultGroups) -> dict[str, str]:
    """Return the names of the tables of some groups, as fragments of statements."""
    return {
        **{
            each: name(f"{each}_{groups.final_role}")
            for each in ("expected", "uncertain", "unsure", "actual")
        },
        "running": name(f"expected_{groups.running_role}"),
    }


def _measures(groups: ResultGroups) -> str:
    measures = groups.aggregate.measures.items()
    return ", ".join(
        f"{expression(groups.pipeline, measure)} AS {name(column)}" for column, measure in measures
    )


def _by_key(session: Session, groups: ResultGroups) -> None:
    pipeline, tables = groups.pipeline, _tables(groups)
    found_key = [f"{_value(pipeline, column)} AS {name(key_column(column))}" for column in pipeline.key]
    fragments = {
        "by": ", ".join(f"{name(key_column(column))} AS {name(column)}" for column in groups.key),
        "measures": _measures(groups),
        "found_key": ", ".join(found_key),
        "key": names([key_column(column) for column in pipeline.key]),
    }
    if groups.running_role in pipeline.outputs.roles:
        expect_running(session, named=names(list(pipeline.key)), **fragments, **tables)
    certain = "FROM expected_results"
    session.run(_GROUPS, table=tables["expected"], results=certain, final="final", **fragments)
    session.run(
        _GROUPS,
        table=tables["uncertain"],
        results=f"{certain} UNION ALL BY NAME FROM uncertain_results",
        final="(FROM possibly_final EXCEPT FROM final)",
        **fragments,
    )


def _by_other_columns(session: Session, groups: ResultGroups) -> None:
    pipeline = groups.pipeline
    columns = {column: _value(pipeline, reference) for column, reference in groups.references.items()}
    stage = pipeline.last_stage
    equal = {
        same: name(column)
        for column, reference in groups.references.items()
        for same in _equal_columns(pipeline, reference)
    }
    fragments = {
        "by": ", ".join(f"{value} AS {name(column)}" for column, value in columns.items()),
        "of": ", ".join(columns.values()),
        "measures": _measures(groups),
        "named": names(list(columns)),
        "final": matched(session, stage, "announced_patterns", equal),
        "perhaps": matched(session, stage, "uncertain_punctuations", equal),
        "same": " AND ".join(f"u.{name(each)} IS NOT DISTINCT FROM g.{name(each)}" for each in columns),
        **_tables(groups),
    }
    session.run(_UNSURE, **fragments)
    session.run(_OTHER, **fragments)
    session.run(_FINAL, **fragments)
    session.run(_NONE, **fragments)
    if groups.final_role in pipeline.outputs.tables_by_role:
        session.run(_SURE, **fragments)


def _value(pipeline: Pipeline, reference: str) -> str:
    """The SQL of a column of the group key, over columns of results."""
    if reference not in pipeline.key:
        return name(pipeline.references.result_column(reference))
    stage = pipeline.last_stage
    place = stage.key.index(reference)
    return f"coalesce({names([stage.key_columns(given)[place] for given in stage.shown_inputs])})"


def _equal_columns(pipeline: Pipeline, reference: str) -> list[str]:
    """The columns of results that equal a column of the group key in every result."""
    stage = pipeline.last_stage
    if reference not in pipeline.key:
        return stage.equal_columns(pipeline.references.result_column(reference))
    place = stage.key.index(reference)
    return [stage.key_columns(given)[place] for given in stage.present_inputs]
