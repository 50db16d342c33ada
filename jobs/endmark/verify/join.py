"""Makes the results by their definition: combinations, rows with a partner, rows without one, all rows."""

from __future__ import annotations

from datetime import timedelta

from endmark.pipeline import JoinStep, Pipeline
from endmark.types import JoinType
from endmark.verify.conditions import keep_where
from endmark.verify.idle_partitions import is_uncertain
from endmark.verify.join_sides import Side, join_sides, microseconds, stream_names
from endmark.verify.session import Session, fill, name, names

_MATCHED = "CREATE TABLE candidates AS SELECT $columns, $rows FROM $inputs"

# The difference of a side is negative if its row is the later one, so only the earlier row's bound counts.
_WITHIN_WINDOWS = """
coalesce(epoch_us($other.$other_time) - epoch_us($own.$own_time) <= $own_window, true)
AND coalesce(epoch_us($own.$own_time) - epoch_us($other.$other_time) <= $other_window, true)
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
        ConfigError: `where` is no condition over the columns of a result.
    """
    if pipeline.join is None:
        (stream,) = pipeline.sides
        columns = names(list(pipeline.result_columns()))
        session.run(_ALL, columns=columns, **stream_names(pipeline, stream))
    else:
        _match(session, pipeline, pipeline.join)
    session.run("CREATE TABLE uncertain_results AS FROM expected_results LIMIT 0")
    for side in join_sides(pipeline):
        if side.preserved:
            _add_rows_alone(session, pipeline, side, "expected_results", "lowest")
            if is_uncertain(pipeline):
                _add_rows_alone(session, pipeline, side, "uncertain_results", "highest")


def _match(session: Session, pipeline: Pipeline, declared: JoinStep) -> None:
    semi, where = declared.type is JoinType.SEMI, declared.where
    numbered = {number: stream_names(pipeline, stream)["row"] for number, stream in enumerate(pipeline.sides)}
    rows = {number: row for number, row in numbered.items() if number == 0 or not semi}
    semi_join = semi and where is None  # the condition may name columns of both sides
    columns = list(pipeline.result_columns() if where is None else pipeline.pair_columns())
    session.run(
        _MATCHED,
        columns=names(columns),
        rows=", ".join(f"s{number}.rowid AS {row}" for number, row in rows.items()),
        inputs=_inputs(pipeline, "SEMI JOIN" if semi_join else "JOIN"),
    )
    if where is None:
        session.run("ALTER TABLE candidates RENAME TO expected_results")
        return
    keep_where(session, "candidates", columns, where, f"steps.{pipeline.flow.join}.where")
    session.run(
        _MET,
        distinct="DISTINCT" if semi else "",
        columns=names(list(pipeline.result_columns())),
        rows=", ".join(rows.values()),
    )


def _inputs(pipeline: Pipeline, join: str) -> str:
    """The SQL of all sides, joined by key and windows. The side of number `n` is called `s<n>`."""
    known = [stream_names(pipeline, stream) for stream in pipeline.sides]
    windows = [_written(pipeline.window_of(stream)) for stream in pipeline.sides]
    inputs = f"{known[0]['side']} s0"
    for number, stream in enumerate(pipeline.sides[1:], 1):
        conditions = [
            f"s0.{name(f'{pipeline.sides[0]}_{column}')} = s{number}.{name(f'{stream}_{column}')}"
            for column in pipeline.key
        ]
        conditions += [
            fill(
                _WITHIN_WINDOWS,
                own=f"s{before}",
                own_time=known[before]["time"],
                own_window=windows[before],
                other=f"s{number}",
                other_time=known[number]["time"],
                other_window=windows[number],
            )
            for before in range(number)
        ]
        inputs += f" {join} {known[number]['side']} s{number} ON {' AND '.join(conditions)}"
    return inputs


def _written(window: timedelta | None) -> str:
    return "NULL" if window is None else str(microseconds(window))


def _add_rows_alone(session: Session, pipeline: Pipeline, side: Side, results: str, reached: str) -> None:
    (other,) = side.others
    session.run(
        _ALONE,
        [microseconds(side.window), other],
        results=results,
        reached=reached,
        other_closed=name(f"closed_{other}"),
        **stream_names(pipeline, side.stream),
    )
