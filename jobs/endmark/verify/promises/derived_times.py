"""Finds the groups by a derived time that are final, and the patterns that tell it.

No later result has a derived time below that of a row at the bound: the progress of its stream, or the event
time of its oldest row in state. The last pattern must be announced. Which earlier ones are there depends on
batches, so each may be there once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from endmark.domain import Domain
from endmark.expressions.derived_times import Chain, DerivedTimes
from endmark.pipeline import Pipeline
from endmark.pipeline.stage import Stage
from endmark.verify.join.sides import key_column, spelled
from endmark.verify.judge.row_steps import FIT
from endmark.verify.promises.live_rows import oldest_to_come
from endmark.verify.session import Session, fill, name, names, text

_BOUNDS = """
SELECT CASE WHEN lowest IS NOT NULL THEN least(lowest, ($oldest)) END AS lowest,
    CASE WHEN highest IS NOT NULL THEN least(highest, ($oldest_sure)) END AS highest
FROM progress WHERE stream = $stream
"""

_DERIVED = "(SELECT $others, TRY(($expression\n)::$kind) AS $column FROM $before)"

# The least value of several rows, unless one has none.
_LOWEST = "(CASE WHEN count($column) = count(*) THEN min($column) END)"

_FINAL = "INSERT INTO $final SELECT DISTINCT $key FROM $side WHERE $past"

# The least distance of two values.
_LEAST = {Domain.DATE: "1", Domain.TIMESTAMP: "INTERVAL 1 MICROSECOND"}

_ANNOUNCED = "INSERT INTO $table VALUES (json(?)::VARCHAR)"


def close_alone(session: Session, pipeline: Pipeline, final: str, reached: str) -> None:
    """Add the final keys of a stream without a join to a table, as far as derived times tell it.

    Args:
        session: the session.
        pipeline: the pipeline.
        final: the table of keys.
        reached: the bound of progress that decides, `lowest` or `highest`.
    """
    keyed = {column for groups in pipeline.groups if not groups.regroups for column in groups.equals}
    for given, times in pipeline.derived_times.items() if keyed else ():
        bounds = _past(session, pipeline.last_stage, given, times)[reached]
        for column, bound in bounds.items():
            if bound is None or column not in keyed:
                continue
            key = [f"{name(f'{given}_{own}')} AS {name(key_column(own))}" for own in pipeline.key]
            session.run(
                _FINAL,
                final=final,
                key=", ".join(key),
                side=name(f"side_{given}"),
                past=f"{name(column)} <= {text(bound)}",
            )


def expect_time_patterns(session: Session, stage: Stage) -> None:
    """Add the patterns on derived times of the last stage.

    They go to `announced_patterns`, or to `uncertain_punctuations` if they may be there or not.
    """
    for given, times in stage.pipeline.derived_times.items():
        past = _past(session, stage, given, times)
        for column, highest in past["highest"].items():
            if highest is not None:
                sure = past["lowest"].get(column) == highest
                table = "announced_patterns" if sure else "uncertain_punctuations"
                _announce(session, column, highest, table)
            for bound in _earlier(session, column, highest):
                _announce(session, column, bound, "uncertain_punctuations")


def _announce(session: Session, column: str, bound: str, table: str) -> None:
    pattern = json.dumps({column: {"between": {"to": bound}}})
    session.run(_ANNOUNCED, [pattern], table=table)


def _earlier(session: Session, column: str, highest: str | None) -> Iterator[str]:
    """Yield the bounds of a derived time that found punctuations have below the highest one, each once.

    Without a highest one, the derived time has passed the last one that there is, so each bound is below it.
    """
    found: dict[str, None] = {}
    for row in session.run("SELECT punctuation FROM actual_punctuations"):
        match _read(row["punctuation"]):
            case {**patterns} if patterns.keys() == {column}:
                match patterns[column]:
                    case {"between": {"to": str(bound)}} if highest is None or bound < highest:
                        found[bound] = None
    yield from found


def _read(punctuation: str) -> Any:
    try:
        return json.loads(punctuation)
    except json.JSONDecodeError:
        return None


def _past(
    session: Session, stage: Stage, given: str, times: DerivedTimes
) -> dict[str, dict[str, str | None]]:
    """Return the last values that no row at the lowest and at the highest bound has, by column of results.

    They are spelled as in data records. A bound that is not known rules out none. A bound at which the
    derived time would be out of range rules out none, either, and the value is `None`.
    """
    oldest, oldest_sure = oldest_to_come(stage, given) if stage.join is not None else ("NULL", "NULL")
    (bounds,) = session.run(_BOUNDS, oldest=oldest, oldest_sure=oldest_sure, stream=text(given))
    return {reached: _derived(session, times, bound) for reached, bound in bounds.items()}


def _derived(session: Session, times: DerivedTimes, bound: int | None) -> dict[str, str | None]:
    """Return the last derived times in front of those of a row of one event time (µs), in any member.

    One that would be out of range is `None`.
    """
    if bound is None:
        return {}
    kinds = {column: derivation.kind for column, derivation in times.chains[0]}
    wanted = names([column for column, _ in times.names])
    rows = [_row(times.event_time, chain, bound) for chain in times.chains]
    ways = [fill("SELECT $wanted FROM $row", wanted=wanted, row=row) for row in rows]
    shown = []
    for column, in_results in times.names:
        kind = kinds[column]
        last = f"({fill(_LOWEST, column=name(column))} - {_LEAST[kind.domain]})"
        fits = fill(FIT[kind.domain], value=last)
        shown.append(f"CASE WHEN {fits} THEN {spelled(last, kind)} END AS {name(in_results)}")
    row = f"({' UNION ALL '.join(ways)})"
    (found,) = session.run("SELECT $shown FROM $row", shown=", ".join(shown), row=row)
    return found


def _row(event_time: str, chain: Chain, time: int) -> str:
    """Return the SQL of a table with the derived times of a row of one event time (µs)."""
    row = f"(SELECT make_timestamp({time})::TIMESTAMPTZ AS {name(event_time)})"
    there = [event_time]
    for column, derivation in chain:
        # A column may have the name of one that was lost.
        others = [each for each in there if each != column]
        row = fill(
            _DERIVED,
            others=names(others),
            expression=derivation.expression.text,
            kind=derivation.kind.duckdb,
            column=name(column),
            before=row,
        )
        there = [*others, column]
    return row
