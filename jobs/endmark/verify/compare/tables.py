"""Compares the Delta tables with the expected ones as multisets, and checks the conservation of records."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from endmark.pipeline import Pipeline
from endmark.pipeline.tables import is_running_role, step_of
from endmark.verify.breach import EXAMPLES, breach, readable
from endmark.verify.groups.running_groups import check_running
from endmark.verify.join.latest_rows import check_latest
from endmark.verify.join.sides import Side, coordinates, join_sides
from endmark.verify.judge.control import CONTROL_UNBALANCED, count_control
from endmark.verify.judge.row_steps import FILTERED
from endmark.verify.read.written_tables import PROMISE
from endmark.verify.report import Breach, Difference, TableComparison, TopicCounts
from endmark.verify.session import Session, fill, name, names

LONGEST_ERROR = 2_000

# One aggregation finds what EXCEPT ALL finds in both directions. Doubles are equal by value, so -0.0 equals
# 0.0. No column of a table has a `#`. An uncertain row may be in the table, and is not missed if it is not.
_DIFFERENCE = """
CREATE TABLE difference AS
SELECT $columns, CASE WHEN sum("#sign") > 0 THEN greatest(sum("#sign") - sum("#uncertain"), 0)
    ELSE sum("#sign") END::BIGINT AS "#surplus"
FROM (
    SELECT $columns, 1 AS "#sign", 0 AS "#uncertain" FROM $actual
    UNION ALL SELECT $columns, -1, 0 FROM $expected
    UNION ALL SELECT $columns, 0, 1 FROM $uncertain
) GROUP BY $columns HAVING "#surplus" <> 0
"""
# The tables whose rows may depend on how far progress came.
_UNCERTAIN = ("results", "punctuations")

_SURPLUS = """
SELECT coalesce(sum("#surplus") FILTER ("#surplus" > 0), 0)::BIGINT AS unexpected,
    coalesce(-sum("#surplus") FILTER ("#surplus" < 0), 0)::BIGINT AS missing
FROM difference
"""

_FORGIVE = 'DELETE FROM difference WHERE "#surplus" < 0'

_COUNTS = """
SELECT
    (SELECT count(*) FROM records WHERE topic = ?) AS records,
    (SELECT count(*) FROM $judged) AS "rows",
    (SELECT count(*) FROM $punctuations) AS punctuations,
    (SELECT count(*) FROM $skipped) AS skipped,
    (SELECT count(*) FROM expected_dead_letters WHERE topic = ?) AS dead_letters,
    (SELECT count(*) FROM $judged WHERE violation IS NOT NULL) AS violated,
    (SELECT count(*) FROM $missed WHERE unmatched) AS missed,
    $refused AS refused
"""

_REASONS = """
SELECT violation, count(*) AS "rows" FROM $judged WHERE violation IS NOT NULL GROUP BY violation
"""

_REJECTED = """(
    SELECT topic, "partition", "offset", 'dead_letters' AS "table" FROM actual_dead_letters
    UNION ALL SELECT topic, "partition", "offset", 'violations' FROM actual_violations
)"""

_KEPT_TWICE = """
SELECT topic, "partition", "offset", list_sort(list("table")) AS tables
FROM $rejected GROUP BY ALL HAVING count(*) > 1
"""

_NOT_READ = """
SELECT topic, "partition", "offset", "table"
FROM $rejected ANTI JOIN records USING (topic, "partition", "offset")
"""

_WORDLESS = """
SELECT topic, "partition", "offset", error FROM actual_dead_letters
WHERE coalesce(length(error) NOT BETWEEN 1 AND $longest OR regexp_matches(error, '[[:cntrl:]]'), true)
"""

_COMPLETED = """
SELECT punctuation, completed_by FROM actual_punctuations
WHERE completed_by IS NULL OR completed_by NOT IN ('closed', 'expired')
"""

_UNBALANCED = """
SELECT records, processed, rejected FROM (
    SELECT (SELECT count(*) FROM records WHERE topic = ?) AS records,
        (SELECT count(*) FROM $judged WHERE violation IS NULL OR violation = 'filtered') - $refused
            + (SELECT count(*) FROM $punctuations) + (SELECT count(*) FROM $skipped) AS processed,
        (SELECT count(*) FROM $rejected WHERE topic = ?) AS rejected
) WHERE records <> processed + rejected
"""

_NOT_PROCESSED = """
SELECT $coordinates FROM actual_results a
WHERE NOT EXISTS (
    SELECT 1 FROM $judged j
    WHERE j.violation IS NULL AND j.$partition = a.$partition AND j.$offset = a.$offset
) AND (a.$partition IS NOT NULL OR a.$offset IS NOT NULL)
"""

# A record with several matches in R is several rows of its side.
_JOINED_TWICE = """
SELECT $coordinates, times
FROM (SELECT $coordinates, count(*) AS times FROM actual_results GROUP BY $coordinates) $sides
WHERE times > $rows
"""

_ROWS_OF_SIDE = """
LEFT JOIN (SELECT $own, count(*) AS $rows FROM $side GROUP BY $own) USING ($own)
"""

_JOINED_AND_ALONE = """
SELECT $own FROM actual_results WHERE $partition IS NOT NULL
GROUP BY $own HAVING bool_or($other IS NULL) AND bool_or($other IS NOT NULL)
"""


def count_topics(session: Session, pipeline: Pipeline) -> list[TopicCounts]:
    """Count the recomputed fates of the records of each topic."""
    control = count_control(session, pipeline)
    streams = [_count_topic(session, pipeline, stream) for stream in pipeline.read_streams]
    return [*streams, *([control] if control.records else [])]


def _count_topic(session: Session, pipeline: Pipeline, stream: str) -> TopicCounts:
    topic = pipeline.streams[stream].topic
    fragments = {part: name(f"{part}_{stream}") for part in ("judged", "punctuations", "skipped", "missed")}
    (found,) = session.run(_COUNTS, [topic, topic], refused=_refused(stream), **fragments)
    kept = found["rows"] - found["violated"]
    reasons = session.run(_REASONS, judged=fragments["judged"])
    violations = {"closed": 0, "late": 0}
    fates = violations | {row["violation"]: row["rows"] for row in reasons}
    filtered = fates.pop(FILTERED, 0)
    return TopicCounts(
        topic=topic,
        records=found["records"],
        rows=found["rows"],
        punctuations=found["punctuations"],
        dead_letters=found["dead_letters"],
        violations=fates,
        filtered=filtered,
        processed=kept - found["refused"] + found["punctuations"] + found["skipped"],
        skipped=found["skipped"],
        lookup_missed=found["missed"],
    )


def _refused(stream: str) -> str:
    """The SQL that counts the rows that are dead letters because they have no match."""
    return fill("(SELECT count(*) FROM $missed WHERE refused)", missed=name(f"missed_{stream}"))


def compare_tables(
    session: Session,
    pipeline: Pipeline,
    problems: dict[str, str | None],
    first_batches: Mapping[str, int] = MappingProxyType({}),
    uncompared: Collection[str] = (),
) -> list[TableComparison]:
    """Compare all tables of a warehouse with the expected ones.

    A table that is younger than its checkpoint may lack rows, since `verify` does not know the batches of
    records.

    Args:
        session: the session that has both.
        pipeline: the pipeline.
        problems: the tables to compare by the kind of their rows, each with the problem of its columns, or
            `None`.
        first_batches: the first batches of tables that are younger than the checkpoint.
        uncompared: the kinds of rows that are uncertain, and so are not compared.
    """
    compared = {
        **{role: _compared(pipeline, role) for role in pipeline.outputs.tables_by_role},
        "dead_letters": ["topic", "partition", "offset", "reason", "value"],
        "violations": ["topic", "partition", "offset", "reason", "event_time", "record", *PROMISE],
        "punctuations": ["punctuation"],
    }
    named = pipeline.outputs.directories
    found = [
        _compare(
            session, pipeline, named[table], table, compared[table], problem, first_batches.get(table, 0)
        )
        for table, problem in problems.items()
    ]
    unknown = {named[role] for role in uncompared if role in named}
    return [each.model_copy(update={"compared": each.table not in unknown}) for each in found]


def _compared(pipeline: Pipeline, role: str) -> list[str]:
    """Return the columns of a table that are compared. The number of a batch is not."""
    columns = list(pipeline.outputs.columns_of(role))
    return columns[:-1] if is_running_role(role) else columns


def _compare(
    session: Session,
    pipeline: Pipeline,
    directory: str,
    table: str,
    columns: list[str],
    problem: str | None,
    first_batch: int,
) -> TableComparison:
    expected, actual = f"expected_{table}", f"actual_{table}"
    found = differences(
        session, columns, actual, expected, uncertain_table(pipeline, table), may_lack=first_batch > 0
    )
    return TableComparison(
        table=directory,
        expected=session.count(expected),
        actual=session.count(actual),
        missing=found.missing,
        unexpected=found.unexpected,
        problem=problem,
        first_batch=first_batch,
        examples=found.examples,
    )


def uncertain_table(pipeline: Pipeline, table: str) -> str | None:
    """Return the table of the rows that may or may not be there; `None` if all rows are known.

    Args:
        pipeline: the pipeline.
        table: the kind of the rows.
    """
    unsure = (*_UNCERTAIN, *(groups.final_role for groups in pipeline.groups))
    known = table not in unsure and step_of(table) not in pipeline.flow.ends
    return None if known else f"uncertain_{table}"


@dataclass(frozen=True)
class Differences:
    """The numbers of rows that are missing and that should not be there, and the first of them."""

    missing: int
    unexpected: int
    examples: list[Difference]


def differences(
    session: Session,
    columns: list[str],
    actual: str,
    expected: str,
    uncertain: str | None,
    *,
    may_lack: bool,
) -> Differences:
    """Compare two tables as multisets.

    Args:
        session: the session that has both.
        columns: the columns that are compared.
        actual: the rows that were found.
        expected: the rows that must be there.
        uncertain: the rows that may be there, too; `None` if there are none.
        may_lack: whether rows may be missing.
    """
    session.run(
        _DIFFERENCE,
        columns=names(columns),
        actual=name(actual),
        expected=name(expected),
        uncertain=f"(FROM {name(expected)} LIMIT 0)" if uncertain is None else name(uncertain),
    )
    if may_lack:
        session.run(_FORGIVE)
    (surplus,) = session.run(_SURPLUS)
    # The order by content puts a changed row next to the expected one.
    rows = session.run(
        "SELECT * FROM difference ORDER BY $columns LIMIT ?", [EXAMPLES], columns=names(columns)
    )
    session.run("DROP TABLE difference")
    return Differences(surplus["missing"], surplus["unexpected"], [_difference(row) for row in rows])


def _difference(row: dict[str, Any]) -> Difference:
    surplus = row.pop("#surplus")
    kind: Literal["missing", "unexpected"] = "unexpected" if surplus > 0 else "missing"
    return Difference(kind=kind, times=abs(surplus), row=readable(row))


def check_conservation(session: Session, pipeline: Pipeline) -> list[Breach]:
    """Return every way in which the tables lost, doubled or made up records."""
    shown = [stream for stream in pipeline.sides if coordinates(stream)[0] in pipeline.result_columns()]
    if "results" not in pipeline.outputs.tables_by_role:
        shown = []
    pair = names([column for stream in shown for column in coordinates(stream)])
    # If a record is several rows, some may have a partner and others none.
    alone = [
        side
        for stage in pipeline.stages
        for side in join_sides(stage)
        if side.preserved and side.stream in shown
        if all(lookup.unique for lookup in pipeline.lookups_of(side.stream))
    ]
    # The matches of a derived row have no coordinates of their own.
    derived = [stage.derived for stage in pipeline.stages if stage.derived is not None]
    paired = shown and all(lookup.unique for given in derived for lookup in pipeline.lookups_of(given))
    found = [
        breach(session, "kept twice among dead letters and violations", _KEPT_TWICE, rejected=_REJECTED),
        breach(session, "a dead letter or violation that was never read", _NOT_READ, rejected=_REJECTED),
        breach(
            session,
            f"a dead letter whose error is no text of 1 to {LONGEST_ERROR} letters that can be printed",
            _WORDLESS,
            longest=str(LONGEST_ERROR),
        ),
        breach(session, "a punctuation completed by neither `closed` nor `expired`", _COMPLETED),
        *([_check_pairs(session, shown, pair)] if paired else []),
        *(_check_sum(session, pipeline, stream) for stream in pipeline.read_streams),
        _check_control(session, pipeline),
        *(_check_processed(session, pipeline, stream, pair) for stream in shown),
        *(_check_alone(session, pipeline, side) for side in alone),
        *check_running(session, pipeline),
        *check_latest(session, pipeline),
    ]
    return [each for each in found if each is not None]


def _check_pairs(session: Session, shown: list[str], pair: str) -> Breach | None:
    rows = {stream: name(f"#rows {stream}") for stream in shown}
    sides = [
        fill(_ROWS_OF_SIDE, own=names(coordinates(stream)), side=name(f"side_{stream}"), rows=rows[stream])
        for stream in shown
    ]
    return breach(
        session,
        "the same records made too many results",
        _JOINED_TWICE,
        coordinates=pair,
        sides=" ".join(sides),
        rows=" * ".join(f"coalesce({each}, 1)" for each in rows.values()),
    )


def _check_sum(session: Session, pipeline: Pipeline, stream: str) -> Breach | None:
    topic = pipeline.streams[stream].topic
    return breach(
        session,
        f"topic {topic}: records do not add up to processed and rejected ones",
        _UNBALANCED,
        [topic, topic],
        refused=_refused(stream),
        judged=name(f"judged_{stream}"),
        punctuations=name(f"punctuations_{stream}"),
        skipped=name(f"skipped_{stream}"),
        rejected=_REJECTED,
    )


def _check_control(session: Session, pipeline: Pipeline) -> Breach | None:
    topic = pipeline.control_topic
    rule = f"topic {topic}: records do not add up to pulses and dead letters"
    return breach(session, rule, CONTROL_UNBALANCED, [topic, topic])


def _check_processed(session: Session, pipeline: Pipeline, stream: str, pair: str) -> Breach | None:
    partition, offset = map(name, coordinates(stream))
    return breach(
        session,
        f"{_topics(pipeline, stream)}: a result of a record that was not processed",
        _NOT_PROCESSED,
        judged=name(f"judged_{stream}"),
        coordinates=pair,
        partition=partition,
        offset=offset,
    )


def _topics(pipeline: Pipeline, stream: str) -> str:
    """Return the topic of a stream, or those of the members of a union, in words."""
    topics = [pipeline.streams[member].topic for member in pipeline.flow.members_of(stream)]
    return f"topic {topics[0]}" if len(topics) == 1 else f"topics {' and '.join(topics)}"


def _check_alone(session: Session, pipeline: Pipeline, side: Side) -> Breach | None:
    (other,) = side.others
    own, stage = coordinates(side.stream), pipeline.stage_of(side.stream)
    return breach(
        session,
        f"{_topics(pipeline, side.stream)}: a record both with a partner and without one",
        _JOINED_AND_ALONE,
        own=names(own),
        partition=name(own[0]),
        other=name(coordinates(stage.timed_by(other))[0]),
    )
