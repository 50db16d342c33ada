"""Makes the expected groups, by the definitions of docs/semantics.md.

Groups by the join key are final with their key. A group by other columns is final if an announced pattern on
these columns matches it, or if a stream has ended that has a row in every result.
"""

from __future__ import annotations

from endmark.pipeline import Aggregate, Pipeline
from endmark.verify.announced_patterns import matched
from endmark.verify.join_sides import key_column
from endmark.verify.measures import expression
from endmark.verify.running_groups import expect_running
from endmark.verify.session import Session, name, names

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
    found_key = [f"{_value(pipeline, column)} AS {name(key_column(column))}" for column in pipeline.key]
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
    stage = pipeline.last_stage
    equal = {
        same: name(column)
        for column, reference in pipeline.group_key.items()
        for same in _equal_columns(pipeline, reference)
    }
    measures = [
        f"{expression(pipeline, measure)} AS {name(column)}" for column, measure in aggregate.measures.items()
    ]
    fragments = {
        "by": ", ".join(f"{value} AS {name(column)}" for column, value in columns.items()),
        "of": ", ".join(columns.values()),
        "measures": ", ".join(measures),
        "named": names(list(columns)),
        "final": matched(session, stage, "announced_patterns", equal),
        "perhaps": matched(session, stage, "uncertain_punctuations", equal),
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
    stage = pipeline.last_stage
    place = stage.key.index(reference)
    return f"coalesce({names([stage.key_columns(given)[place] for given in stage.shown_inputs])})"


def _equal_columns(pipeline: Pipeline, reference: str) -> list[str]:
    """The columns of results that equal a column of the group key in every result."""
    stage = pipeline.last_stage
    if reference not in pipeline.key:
        return stage.equal_columns(pipeline.result_column(reference))
    place = stage.key.index(reference)
    return [stage.key_columns(given)[place] for given in stage.present_inputs]
