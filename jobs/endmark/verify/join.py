"""Makes the results by their definition: pairs, rows with a partner, rows that can have none, all rows."""

from __future__ import annotations

from endmark.pipeline import JoinStep, Pipeline
from endmark.types import JoinType
from endmark.verify.conditions import keep_where
from endmark.verify.idle_partitions import is_uncertain
from endmark.verify.join_sides import Side, both_sides, microseconds, stream_names
from endmark.verify.session import Session, name, names

# The difference of a side is negative if its row is the later one, so only the earlier row's bound counts.
_MATCHED = """
CREATE TABLE candidates AS
SELECT $columns, $rows FROM $left l $join $right r ON $same_key
    AND coalesce(epoch_us(r.$right_time) - epoch_us(l.$left_time) <= ?, true)
    AND coalesce(epoch_us(l.$left_time) - epoch_us(r.$right_time) <= ?, true)
"""

# A left row of a semi join is a result once, even if several of its candidates meet the condition.
_MET = "CREATE TABLE expected_results AS SELECT $distinct $columns, $rows FROM candidates_kept"

# Each row of a stream alone is a result.
_ALL = "CREATE TABLE expected_results AS SELECT $columns, s.rowid AS $row FROM $side s"

# The bound is that of a final group: a row at exactly progress may still be a partner.
_ALONE = """
INSERT INTO $results BY NAME
SELECT r.*, r.rowid AS $row FROM $side r
WHERE NOT EXISTS (FROM expected_results e WHERE e.$row = r.rowid)
    AND (EXISTS (FROM $other_closed p WHERE $promised)
        OR epoch_us(r.$time) + ? < (SELECT $reached FROM progress WHERE stream = ?))
"""


def join(session: Session, pipeline: Pipeline) -> None:
    """Make `expected_results` and `uncertain_results` from `side_<stream>`, `closed_<stream>` and `progress`.

    Both have the columns of the results table, and for each side the `rowid` of its row in `side_<stream>`.

    Raises:
        ConfigError: `where` is no condition over the columns of a pair.
    """
    if pipeline.join is None:
        (stream,) = pipeline.sides
        columns = names(list(pipeline.result_columns()))
        session.run(_ALL, columns=columns, **stream_names(pipeline, stream))
    else:
        _match(session, pipeline, pipeline.join)
    session.run("CREATE TABLE uncertain_results AS FROM expected_results LIMIT 0")
    for side in both_sides(pipeline):
        if side.preserved:
            _add_rows_alone(session, pipeline, side, "expected_results", "lowest")
            if is_uncertain(pipeline):
                _add_rows_alone(session, pipeline, side, "uncertain_results", "highest")


def _match(session: Session, pipeline: Pipeline, declared: JoinStep) -> None:
    left, right = (stream_names(pipeline, stream) for stream in pipeline.sides)
    one, other = pipeline.sides
    same_key = [f"l.{name(f'{one}_{column}')} = r.{name(f'{other}_{column}')}" for column in declared.on]
    semi, where = declared.type is JoinType.SEMI, declared.where
    rows = [left["row"]] if semi else [left["row"], right["row"]]
    numbers = {left["row"]: "l.rowid", right["row"]: "r.rowid"}
    semi_join = semi and where is None  # the condition may name columns of both sides
    columns = list(pipeline.result_columns() if where is None else pipeline.pair_columns())
    session.run(
        _MATCHED,
        [microseconds(pipeline.window_of(stream)) for stream in pipeline.sides],
        columns=names(columns),
        left=left["side"],
        right=right["side"],
        rows=", ".join(f"{numbers[row]} AS {row}" for row in rows),
        join="SEMI JOIN" if semi_join else "JOIN",
        same_key=" AND ".join(same_key),
        left_time=left["time"],
        right_time=right["time"],
    )
    if where is None:
        session.run("ALTER TABLE candidates RENAME TO expected_results")
        return
    keep_where(session, "candidates", columns, where, f"steps.{pipeline.flow.join}.where")
    session.run(
        _MET,
        distinct="DISTINCT" if semi else "",
        columns=names(list(pipeline.result_columns())),
        rows=", ".join(rows),
    )


def _add_rows_alone(session: Session, pipeline: Pipeline, side: Side, results: str, reached: str) -> None:
    session.run(
        _ALONE,
        [microseconds(side.window), side.other],
        results=results,
        reached=reached,
        other_closed=name(f"closed_{side.other}"),
        **stream_names(pipeline, side.stream),
    )
