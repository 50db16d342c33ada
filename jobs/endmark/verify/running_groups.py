"""Checks running groups: the last row of each group is recomputed, and earlier rows must lead up to it.

`verify` does not know how records were cut into batches, so it cannot recompute the rows before the last. An
upserted table has no such rows.
"""

from __future__ import annotations

from endmark.pipeline import Pipeline
from endmark.verify.breach import breach
from endmark.verify.measures import FUNCTIONS
from endmark.verify.report import Breach
from endmark.verify.session import Session, fill, name, names

_EXPECTED = """
CREATE TABLE expected_running AS FROM (
    SELECT $by, $measures, coalesce(any_value("#final"), false) AS final
    FROM (SELECT *, $found_key FROM expected_results)
    LEFT JOIN (SELECT DISTINCT $key, true AS "#final" FROM final) USING ($key)
    GROUP BY $key
) ANTI JOIN unsure_groups USING ($named)
"""

# The results or the end of these groups depend on when a partition was found idle.
_UNSURE = """
CREATE TABLE unsure_groups AS
SELECT DISTINCT $by FROM (
    FROM (SELECT $found_key FROM uncertain_results) UNION ALL (FROM possibly_final EXCEPT FROM final)
)
"""

_LATEST = """
CREATE TABLE actual_running AS
SELECT * EXCLUDE (batch, "#last")
FROM (SELECT *, max(batch) OVER (PARTITION BY $named) AS "#last" FROM all_running) g
WHERE ($every OR batch = "#last") AND NOT EXISTS (FROM unsure_groups u WHERE $same)
"""

_TWICE = "SELECT $named, batch, count(*) AS times FROM all_running GROUP BY ALL HAVING count(*) > 1"
_TWO_ROWS = "SELECT $named, count(*) AS times FROM all_running GROUP BY ALL HAVING count(*) > 1"

_AFTER = """
SELECT $named, batch FROM (SELECT *, lag(final) OVER before AS ended FROM all_running
WINDOW before AS (PARTITION BY $named ORDER BY batch)) WHERE ended
"""

# A group never loses a row, so its measure can change from null to a value but not back.
_BACK = """
SELECT $named, batch, $measure, was FROM (SELECT *, lag($measure) OVER before AS was FROM all_running
WINDOW before AS (PARTITION BY $named ORDER BY batch)) WHERE coalesce($measure $beyond was, was IS NOT NULL)
"""


def expect_running(session: Session, **fragments: str) -> None:
    """Make `expected_running`, the last row of each group, from `expected_results` and `final`.

    Args:
        session: the session.
        fragments: the SQL fragments of the group-by's statement.
    """
    session.run(_UNSURE, **fragments)
    session.run(_EXPECTED, **fragments)


def keep_latest(session: Session, pipeline: Pipeline) -> None:
    """Rename `actual_running` to `all_running`, and make it anew with the last row of each group.

    Of an upserted table, it keeps all rows, since each must be the last one of its group.
    """
    if pipeline.running_columns():
        session.run("ALTER TABLE actual_running RENAME TO all_running")
        columns = list(map(name, pipeline.group_key))
        same = " AND ".join(f"u.{column} IS NOT DISTINCT FROM g.{column}" for column in columns)
        session.run(_LATEST, named=_named(pipeline), same=same, every=str(_is_upserted(pipeline)))


def check_running(session: Session, pipeline: Pipeline) -> list[Breach | None]:
    """Check that a group has one row a batch and none after its end, and that no measure goes back.

    A group of an upserted table must have one row.
    """
    if pipeline.aggregate is None or not pipeline.running_columns():
        return []
    named = _named(pipeline)
    if _is_upserted(pipeline):
        return [breach(session, "a running group that has two rows", _TWO_ROWS, named=named)]
    back = [
        breach(
            session,
            f"a running group whose {measure.function} {column} went back",
            fill(_BACK, named=named, measure=name(column), beyond=beyond),
        )
        for column, measure in pipeline.aggregate.measures.items()
        if (beyond := FUNCTIONS[measure.function].back) is not None
    ]
    return [
        breach(session, "a running group that has two rows of one batch", _TWICE, named=named),
        breach(session, "a running group that went on after it was final", _AFTER, named=named),
        *back,
    ]


def _is_upserted(pipeline: Pipeline) -> bool:
    return pipeline.laid_out["running"].mode == "upsert"


def _named(pipeline: Pipeline) -> str:
    return names(list(pipeline.group_key))
