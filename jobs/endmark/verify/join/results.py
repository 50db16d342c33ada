"""Makes the results by their definition: combinations, rows with a partner, rows without one, all rows."""

from __future__ import annotations

from datetime import timedelta

from endmark.pipeline import JoinStep
from endmark.pipeline.stage import Stage
from endmark.types import JoinType
from endmark.verify.join.sides import Side, join_sides, microseconds, stream_names
from endmark.verify.judge.conditions import keep_where
from endmark.verify.judge.result_steps import step_results
from endmark.verify.promises.idle_partitions import is_uncertain
from endmark.verify.session import Session, fill, name, names

_MATCHED = 'CREATE TABLE candidates AS SELECT $columns, $rows, $sure AS "#sure" FROM $inputs'

# The difference of a side is negative if its row is the later one, so only the earlier row's bound counts.
_WITHIN_WINDOWS = """
coalesce(epoch_us($other.$other_time) - epoch_us($own.$own_time) <= $own_window, true)
AND coalesce(epoch_us($own.$own_time) - epoch_us($other.$other_time) <= $other_window, true)
"""

# A left row of a semi join is a result once, even if several of its candidates meet the condition.
_MET = 'CREATE TABLE expected_results AS SELECT $distinct $columns, $rows, "#sure" FROM $met'

# Each row of a stream alone is a result.
_ALL = 'CREATE TABLE expected_results AS SELECT $columns, s.rowid AS $row, $sure AS "#sure" FROM $side s'

# A left row of a semi join may have both a sure partner and one that is not.
_UNSURE = """
INSERT INTO uncertain_results FROM expected_results e
WHERE NOT "#sure" AND NOT ($once AND EXISTS (FROM expected_results s WHERE s."#sure" AND s.$row = e.$row))
"""

_SURE = 'DELETE FROM expected_results WHERE NOT "#sure"'

# The bound is that of a final group: a row at exactly progress may still be a partner.
_ALONE = """
INSERT INTO $results BY NAME
SELECT r.*, r.rowid AS $row FROM $side r
WHERE NOT EXISTS (FROM expected_results e WHERE e.$row = r.rowid)
    AND (EXISTS (FROM $other_closed p WHERE $promised)
        OR epoch_us(r.$time) + ? < (SELECT $reached FROM progress WHERE stream = ?))
    AND $alone
"""

# A row that is not sure itself, or that has a partner that is not, may be alone.
_SURELY_ALONE = "NOT EXISTS (FROM uncertain_results u WHERE u.$row = r.rowid) AND $sure"


def join(session: Session, stage: Stage) -> None:
    """Make `expected_results` and `uncertain_results` from `side_<stream>`, `closed_<stream>` and `progress`.

    Both have the columns of the stage's results, and for each side the `rowid` of its row in `side_<stream>`.
    Results of rows that may or may not be there are uncertain.

    Raises:
        ConfigError: `where` is no condition over the columns of a result.
    """
    pipeline = stage.pipeline
    if stage.join is None:
        (given,) = stage.inputs
        columns = names([column for column, _ in stage.columns.joined])
        session.run(_ALL, columns=columns, sure=_sure(stage), **stream_names(pipeline, given))
    else:
        _match(session, stage, stage.join)
    session.run("CREATE TABLE uncertain_results AS FROM expected_results LIMIT 0")
    if stage.derived is not None:
        once = str(stage.join is not None and stage.join.type is JoinType.SEMI)
        session.run(_UNSURE, once=once, row=stream_names(pipeline, stage.inputs[0])["row"])
        session.run(_SURE)
    for side in join_sides(stage):
        if side.preserved:
            _add_rows_alone(session, stage, side, "expected_results", "lowest")
            if is_uncertain(stage):
                _add_rows_alone(session, stage, side, "uncertain_results", "highest")
    step_results(session, stage)


def _sure(stage: Stage) -> str:
    """The SQL of whether the rows of all sides are sure to be there."""
    if stage.derived is None:
        return "true"
    return f's{stage.inputs.index(stage.derived) if stage.join else ""}."#sure"'


def _match(session: Session, stage: Stage, declared: JoinStep) -> None:
    semi, where = declared.type is JoinType.SEMI, declared.where
    numbered = {
        number: stream_names(stage.pipeline, given)["row"] for number, given in enumerate(stage.inputs)
    }
    rows = {number: row for number, row in numbered.items() if number == 0 or not semi}
    # The condition may name columns of both sides, and partners may differ in whether they are sure.
    semi_join = semi and where is None and stage.derived is None
    shown = [column for column, _ in stage.columns.joined]
    columns = shown if where is None else list(stage.columns.of_pairs)
    session.run(
        _MATCHED,
        columns=names(columns),
        rows=", ".join(f"s{number}.rowid AS {row}" for number, row in rows.items()),
        sure=_sure(stage),
        inputs=_inputs(stage, "SEMI JOIN" if semi_join else "JOIN"),
    )
    if where is None and (semi_join or not semi):
        session.run("ALTER TABLE candidates RENAME TO expected_results")
        return
    if where is not None:
        keep_where(session, "candidates", columns, where, f"{stage.field}.where")
    session.run(
        _MET,
        met="candidates" if where is None else "candidates_kept",
        distinct="DISTINCT" if semi else "",
        columns=names(shown),
        rows=", ".join(rows.values()),
    )


def _inputs(stage: Stage, join: str) -> str:
    """The SQL of all sides, joined by key and windows. The side of number `n` is called `s<n>`."""
    known = [stream_names(stage.pipeline, given) for given in stage.inputs]
    keys = [stage.key_columns(given) for given in stage.inputs]
    windows = [_written(stage.window_of(given)) for given in stage.inputs]
    inputs = f"{known[0]['side']} s0"
    for number in range(1, len(known)):
        conditions = [
            f"s0.{name(first)} = s{number}.{name(own)}"
            for first, own in zip(keys[0], keys[number], strict=True)
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


def _add_rows_alone(session: Session, stage: Stage, side: Side, results: str, reached: str) -> None:
    (other,) = side.others
    known = stream_names(stage.pipeline, side.stream)
    perhaps = "possibly_" if reached == "highest" and other == stage.derived else ""
    sure = 'r."#sure"' if side.stream == stage.derived else "true"
    session.run(
        _ALONE,
        [microseconds(side.window), other],
        results=results,
        reached=reached,
        other_closed=name(f"{perhaps}closed_{other}"),
        alone="true" if reached == "highest" else fill(_SURELY_ALONE, sure=sure, row=known["row"]),
        **known,
    )
