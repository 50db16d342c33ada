"""Applies the row steps behind a join to its recomputed results."""

from __future__ import annotations

from endmark.pipeline.stage import Stage
from endmark.verify.judge.row_steps import rows_behind
from endmark.verify.session import Session, name, names

# Beside its columns, a result has the `rowid` of its row on each side, and whether it is sure.
_BEHIND = """
CREATE TABLE $results AS
SELECT $columns, t.* EXCLUDE ($joined) FROM $table t JOIN arriving s ON t.rowid = s."#row"
WHERE s."#fate" IS NULL
"""


def step_results(session: Session, stage: Stage) -> None:
    """Put the rows behind the row steps of a join into `expected_results` and `uncertain_results`.

    Then the tables `joined_results` have those in front of them.
    """
    if not stage.columns.row_steps:
        return
    joined = [column for column, _ in stage.columns.joined]
    for kind in ("expected", "uncertain"):
        results, table = f"{kind}_results", joined_results(stage, kind)
        session.run("ALTER TABLE $results RENAME TO $table", results=results, table=table)
        arriving = rows_behind(session, stage.columns.row_steps, table, joined)
        derived = {column for step in stage.columns.row_steps for column in step.derived}
        columns = [
            f"{'s' if column in derived else 't'}.{name(column)}" for column, _ in stage.columns.of_results
        ]
        session.run_on(
            arriving, _BEHIND, results=results, table=table, columns=", ".join(columns), joined=names(joined)
        )


def joined_results(stage: Stage, kind: str) -> str:
    """Return the table of results in front of the row steps behind the join, `expected` or `uncertain`."""
    return f"{kind}_joined_results" if stage.columns.row_steps else f"{kind}_results"
