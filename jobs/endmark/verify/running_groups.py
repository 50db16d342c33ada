"""Checks running groups: the last row of each group is recomputed, and earlier rows must lead up to it.

`verify` does not know how records were cut into batches, so it cannot recompute the rows before the last. An
upserted table has no such rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from endmark.pipeline import Measure, Pipeline
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
CREATE TABLE $actual AS
SELECT * EXCLUDE (batch, "#last")
FROM (SELECT *, max(batch) OVER (PARTITION BY $named) AS "#last" FROM $all) g
WHERE ($every OR batch = "#last") AND $sure
"""

_TWICE = "SELECT $named, batch, count(*) AS times FROM $all GROUP BY ALL HAVING count(*) > 1"
_TWO_ROWS = "SELECT $named, count(*) AS times FROM $all GROUP BY ALL HAVING count(*) > 1"

_AFTER = """
SELECT $named, batch FROM (SELECT *, lag(final) OVER before AS ended FROM $all
WINDOW before AS (PARTITION BY $named ORDER BY batch)) WHERE ended
"""

# A group never loses a row, so its measure can change from null to a value but not back.
_BACK = """
SELECT $named, batch, $measure, was FROM (SELECT *, lag($measure) OVER before AS was FROM $all
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

    Of an upserted table, it keeps all rows, since each must be the last one of its group. The table of
    groups of final groups is treated alike.
    """
    for found in _tables(pipeline):
        session.run("ALTER TABLE $actual RENAME TO $all", **found.fragments)
        columns = list(map(name, found.key))
        same = " AND ".join(f"u.{column} IS NOT DISTINCT FROM g.{column}" for column in columns)
        unsure = fill("NOT EXISTS (FROM unsure_groups u WHERE $same)", same=same)
        session.run(
            _LATEST,
            every=str(found.upserted),
            sure=unsure if found.role == "running" else "true",
            **found.fragments,
        )


def check_running(session: Session, pipeline: Pipeline) -> list[Breach | None]:
    """Check that a group has one row a batch and none after its end, and that no measure goes back.

    A group of an upserted table must have one row.
    """
    return [each for found in _tables(pipeline) for each in _check(session, found)]


@dataclass(frozen=True)
class _Table:
    """A table of running groups: the kind of its rows, the group key, and the measures."""

    role: str
    key: Sequence[str]
    measures: Mapping[str, Measure]
    upserted: bool

    @property
    def fragments(self) -> dict[str, str]:
        """The SQL fragments of statements on the table."""
        return {"actual": f"actual_{self.role}", "all": f"all_{self.role}", "named": names(self.key)}


def _tables(pipeline: Pipeline) -> Iterator[_Table]:
    laid_out, rollup = pipeline.laid_out, pipeline.rollup
    if pipeline.aggregate is not None and (table := laid_out.get("running")) is not None:
        measures = pipeline.aggregate.measures
        yield _Table("running", list(pipeline.group_key), measures, table.mode == "upsert")
    if rollup is not None and (table := laid_out.get("running_rollup")) is not None:
        yield _Table("running_rollup", rollup.key, rollup.aggregate.measures, table.mode == "upsert")


def _check(session: Session, found: _Table) -> list[Breach | None]:
    if found.upserted:
        return [breach(session, "a running group that has two rows", fill(_TWO_ROWS, **found.fragments))]
    back = [
        breach(
            session,
            f"a running group whose {measure.function} {column} went back",
            fill(_BACK, measure=name(column), beyond=beyond, **found.fragments),
        )
        for column, measure in found.measures.items()
        if (beyond := FUNCTIONS[measure.function].back) is not None
    ]
    return [
        breach(session, "a running group that has two rows of one batch", fill(_TWICE, **found.fragments)),
        breach(session, "a running group that went on after it was final", fill(_AFTER, **found.fragments)),
        *back,
    ]
