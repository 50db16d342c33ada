"""Makes the expected tables that have the newest row of each key, and checks that a key is in one partition.

Rows of one partition are in the order of offsets. So if a key has rows in several partitions, none is the
newest.
"""

from __future__ import annotations

from endmark.pipeline import Pipeline
from endmark.pipeline.tables import is_latest_role, step_of
from endmark.verify.breach import breach
from endmark.verify.join.sides import stream_names
from endmark.verify.join.step_tables import rows_behind
from endmark.verify.report import Breach
from endmark.verify.session import Session, name, names

_NEWEST = """
CREATE TABLE $expected AS SELECT $columns FROM (
    SELECT *, row_number() OVER (PARTITION BY $table_key ORDER BY $offset DESC) AS "#age" FROM $behind
    WHERE ($partition, $offset) NOT IN (SELECT (part, off) FROM $missed WHERE refused)
) r WHERE "#age" = 1 $and_not_deleted
"""

# A key may be inserted again behind its deletion, and deleted again.
_NOT_DELETED = ' AND NOT EXISTS (FROM $deletions p WHERE $promised AND p."offset" > r.$offset)'

_SCATTERED = """
SELECT $table_key, count(DISTINCT $partition) AS partitions FROM $behind GROUP BY ALL HAVING partitions > 1
"""


def expect_latest(session: Session, pipeline: Pipeline, stream: str) -> None:
    """Make `expected_<table>` for each table of the newest rows of a stream, or of one of its steps."""
    for role in filter(is_latest_role, pipeline.outputs.tables_by_role):
        if pipeline.flow.path_to(step_of(role))[0] != stream:
            continue
        known = stream_names(pipeline, stream)
        session.run(
            _NEWEST.replace("$and_not_deleted", _NOT_DELETED if pipeline.removes_rows(stream) else ""),
            expected=name(f"expected_{role}"),
            columns=names(list(pipeline.outputs.columns_of(role))),
            behind=rows_behind(pipeline, role),
            missed=name(f"missed_{stream}"),
            table_key=names(list(pipeline.outputs.key_of(role))),
            **known,
        )


def check_latest(session: Session, pipeline: Pipeline) -> list[Breach | None]:
    """Check that each key of such a table has rows in one partition alone."""
    found = []
    for role in filter(is_latest_role, pipeline.outputs.tables_by_role):
        stream, _ = pipeline.flow.path_to(step_of(role))
        rule = f"table {pipeline.outputs.directories[role]}: a key with rows in several partitions"
        found.append(
            breach(
                session,
                rule,
                _SCATTERED,
                behind=rows_behind(pipeline, role),
                table_key=names(list(pipeline.outputs.key_of(role))),
                partition=stream_names(pipeline, stream)["partition"],
            )
        )
    return found
