"""Makes the expected tables of streams and steps in front of the results."""

from __future__ import annotations

from endmark.pipeline import Pipeline
from endmark.pipeline.stage import Stage
from endmark.pipeline.steps.lookup import LookupStep
from endmark.pipeline.tables import is_latest_role, step_of, step_role
from endmark.verify.join.sides import stream_names
from endmark.verify.session import Session, name, names

_ROWS = """
CREATE TABLE $expected AS SELECT $columns FROM $behind
WHERE ($partition, $offset) NOT IN (SELECT (part, off) FROM $missed WHERE refused)
"""

_RESULTS = "CREATE TABLE $table AS SELECT $columns FROM $results"


def expect_steps(session: Session, pipeline: Pipeline, stream: str) -> None:
    """Make `expected_<role>` for each table or topic of all rows of a stream, or of one of its steps.

    Needs `processed_<stream>` and `missed_<stream>`, and `behind_<relation>` of each lookup.
    """
    for role in pipeline.outputs.step_roles:
        if is_latest_role(role) or step_of(role) in pipeline.flow.ends:
            continue
        if pipeline.flow.path_to(step_of(role))[0] != stream:
            continue
        session.run(
            _ROWS,
            expected=name(f"expected_{role}"),
            columns=names(list(pipeline.outputs.columns_of(role))),
            behind=rows_behind(pipeline, role),
            missed=name(f"missed_{stream}"),
            **stream_names(pipeline, stream),
        )


def expect_join(session: Session, earlier: Stage) -> None:
    """Make `expected_<role>` and `uncertain_<role>` of an earlier stage's results if they are written."""
    role = step_role(str(earlier.steps.end))
    if role not in earlier.pipeline.outputs.roles:
        return
    columns = names([column for column, _ in earlier.columns.of_results])
    for kind in ("expected", "uncertain"):
        session.run(_RESULTS, table=name(f"{kind}_{role}"), columns=columns, results=name(f"{kind}_results"))


def rows_behind(pipeline: Pipeline, role: str) -> str:
    """Return the SQL name of the processed rows behind a stream or step, given the kind of its rows."""
    stream, path = pipeline.flow.path_to(step_of(role))
    checked = pipeline.stage_of(stream).columns.looked_up_steps(stream)
    last = pipeline.steps[path[-1]] if path else None
    if isinstance(last, LookupStep):
        return name(f"behind_{last.lookup.relation}")
    return name(f"behind_step_{path[-1]}" if path and path[-1] in checked else f"processed_{stream}")
