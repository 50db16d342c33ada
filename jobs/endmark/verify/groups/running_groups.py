"""Checks running groups: the last row of each group is recomputed, and earlier rows must lead up to it.

`verify` does not know how records were cut into batches, so it cannot recompute the rows before the last. An
upserted table has no such rows.
"""

from __future__ import annotations

from endmark.pipeline import Pipeline
from endmark.pipeline.groups import Groups, ResultGroups
from endmark.verify.breach import breach
from endmark.verify.groups.measures import FUNCTIONS
from endmark.verify.report import Breach
from endmark.verify.session import Session, fill, name, names

_EXPECTED = """
CREATE TABLE $running AS FROM (
    SELECT $by, $measures, coalesce(any_value("#final"), false) AS final
    FROM (SELECT *, $found_key FROM expected_results)
    LEFT JOIN (SELECT DISTINCT $key, true AS "#final" FROM final) USING ($key)
    GROUP BY $key
) ANTI JOIN $unsure USING ($named)
"""

# The results or the end of these groups depend on when a partition was found idle.
_UNSURE = """
CREATE TABLE $unsure AS
SELECT DISTINCT $by FROM (
    FROM (SELECT $found_key FROM uncertain_results) UNION ALL (FROM possibly_final EXCEPT FROM final)
)
"""

_LATEST = """
CREATE TABLE $latest AS
SELECT * EXCLUDE ($batch, "#last")
FROM (SELECT *, max($batch) OVER (PARTITION BY $named) AS "#last" FROM $all) g
WHERE ($every OR $batch = "#last") AND $sure
"""

_TWICE = "SELECT $named, $batch, count(*) AS times FROM $all GROUP BY ALL HAVING count(*) > 1"
_TWO_ROWS = "SELECT $named, count(*) AS times FROM $all GROUP BY ALL HAVING count(*) > 1"

_AFTER = """
SELECT $named, $batch FROM (SELECT *, lag(final) OVER before AS ended FROM $all
WINDOW before AS (PARTITION BY $named ORDER BY $batch)) WHERE ended
"""

# A group never loses a row, so its measure can change from null to a value but not back.
_BACK = """
SELECT $named, $batch, $measure, was FROM (SELECT *, lag($measure) OVER before AS was FROM $all
WINDOW before AS (PARTITION BY $named ORDER BY $batch)) WHERE coalesce($measure $beyond was, was IS NOT NULL)
"""


_PUBLISHED_BATCH = name("#batch")


def expect_running(session: Session, **fragments: str) -> None:
    """Make the expected last row of each group by the join key, from `expected_results` and `final`.

    Args:
        session: the session.
        fragments: the SQL fragments of the group-by's statement.
    """
    session.run(_UNSURE, **fragments)
    session.run(_EXPECTED, **fragments)


def keep_latest(session: Session, pipeline: Pipeline) -> None:
    """Keep all rows of each table of groups so far under another name, and the last ones under its own.

    Of an upserted table, it keeps all rows, since each must be the last one of its group.
    """
    for groups in _written(pipeline):
        fragments = _fragments(groups)
        session.run("ALTER TABLE $latest RENAME TO $all", **fragments)
        session.run(_LATEST, every=str(_is_upserted(groups)), sure=sure_groups(groups), **fragments)


def keep_last_published(session: Session, groups: Groups, changes: str, last: str) -> None:
    """Make a table of the last records of groups in a topic, without those that depend on idleness.

    Args:
        session: the session.
        groups: the groups.
        changes: the table of the topic's records, without repeats. Its column `#batch` has the batch.
        last: the table to make.
    """
    fragments = _fragments(groups) | {"all": name(changes), "latest": name(last), "batch": _PUBLISHED_BATCH}
    session.run(_LATEST, every="false", sure=sure_groups(groups), **fragments)


def sure_groups(groups: Groups) -> str:
    """Return the condition that a row `g` is of a group that does not depend on idleness."""
    if not isinstance(groups, ResultGroups):
        return "true"
    same = " AND ".join(f"u.{column} IS NOT DISTINCT FROM g.{column}" for column in map(name, groups.key))
    return fill(
        "NOT EXISTS (FROM $unsure u WHERE $same)", unsure=name(f"unsure_{groups.final_role}"), same=same
    )


def check_running(session: Session, pipeline: Pipeline) -> list[Breach | None]:
    """Check that a group has one row a batch and none after its end, and that no measure goes back.

    A group of an upserted table must have one row.
    """
    return [each for groups in _written(pipeline) for each in _check(session, groups)]


def check_published_running(
    session: Session, groups: Groups, changes: str, topic: str
) -> list[Breach | None]:
    """Check the same of the records of a topic, which `changes` has without repeats."""
    fragments = _fragments(groups) | {"all": name(changes), "batch": _PUBLISHED_BATCH}
    return _check_changes(session, groups, fragments, f"topic {topic}: ")


def _written(pipeline: Pipeline) -> list[Groups]:
    """Return the groups of which a table has the rows so far."""
    return [
        groups for groups in pipeline.all_groups if groups.running_role in pipeline.outputs.tables_by_role
    ]


def _is_upserted(groups: Groups) -> bool:
    return groups.pipeline.outputs.tables_by_role[groups.running_role].mode == "upsert"


def _fragments(groups: Groups) -> dict[str, str]:
    """Return the SQL fragments of statements on a table of groups so far."""
    role = groups.running_role
    return {
        "latest": name(f"actual_{role}"),
        "all": name(f"all_{role}"),
        "named": names(groups.key),
        "batch": "batch",
    }


def _check(session: Session, groups: Groups) -> list[Breach | None]:
    fragments = _fragments(groups)
    if _is_upserted(groups):
        return [breach(session, "a running group that has two rows", fill(_TWO_ROWS, **fragments))]
    return _check_changes(session, groups, fragments)


def _check_changes(
    session: Session, groups: Groups, fragments: dict[str, str], place: str = ""
) -> list[Breach | None]:
    back = [
        breach(
            session,
            f"{place}a running group whose {measure.function} {column} went back",
            fill(_BACK, measure=name(column), beyond=beyond, **fragments),
        )
        for column, measure in groups.aggregate.measures.items()
        if (beyond := FUNCTIONS[measure.function].back) is not None
    ]
    return [
        breach(session, f"{place}a running group that has two rows of one batch", fill(_TWICE, **fragments)),
        breach(session, f"{place}a running group that went on after it was final", fill(_AFTER, **fragments)),
        *back,
    ]
