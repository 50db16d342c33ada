"""Makes the expected tables from classified records and R, by the definitions of docs/semantics."""

from __future__ import annotations

from endmark.pipeline import Lookup, Pipeline
from endmark.pipeline.stage import Stage
from endmark.pipeline.steps.lookup import LookupStep
from endmark.types import ColumnType
from endmark.verify.join.derived import close_derived_keys, derive
from endmark.verify.join.latest_rows import expect_latest
from endmark.verify.join.results import join
from endmark.verify.join.sides import key_column, microseconds, spelled, stream_names
from endmark.verify.join.step_tables import expect_steps
from endmark.verify.judge.broken_promises import name_promises
from endmark.verify.judge.closed_elsewhere import find_closed_elsewhere
from endmark.verify.judge.duplicates import filter_duplicates
from endmark.verify.judge.looked_up_steps import expect_letters, step_looked_up
from endmark.verify.judge.unions import part_missed, unite_promises, unite_rows
from endmark.verify.promises.closed_keys import close_keys, wider_columns, within
from endmark.verify.promises.derived_times import close_alone
from endmark.verify.promises.final_keys import closed_keys, find_final
from endmark.verify.promises.idle_partitions import is_uncertain, measure_progress, possibly_idle
from endmark.verify.promises.order import ordering
from endmark.verify.read.relation import lookup_key
from endmark.verify.session import Session, name, names, text

# The fate of a row depends on earlier rows of its partition, so the window frame ends at the row before.
# `#came` is an offset. For a unique key it is that of the first row that nothing else rules out, or that is
# filtered; for a clustered key it is that of the first row that ended a run. `filtered` is no violation, but
# stands in the same column.
_JUDGED = """
CREATE TABLE $judged AS
SELECT * REPLACE (CASE WHEN "#by_row" THEN "#came" ELSE "#since" END AS "#since"),
    CASE WHEN "#filtered" THEN 'filtered' ELSE coalesce("#ruled",
        CASE WHEN "#by_row" THEN $by_row WHEN "#since" IS NOT NULL THEN 'closed'
            ELSE coalesce("#elsewhere", CASE WHEN "#overtaken" THEN 'idle' END) END
    ) END AS violation
FROM (
SELECT *, "#came" < $offset AND coalesce("#came" <= "#since", true) AS "#by_row"
FROM (
SELECT *, coalesce("#ended",
    min($offset) FILTER ($unique
        AND ("#filtered" OR "#ruled" IS NULL AND "#since" IS NULL AND NOT "#overtaken"))
    OVER (PARTITION BY $partition, $own_key)) AS "#came"
FROM (
SELECT r.*,
    CASE WHEN epoch_us(r.newest) - epoch_us(r.$time) > ? OR epoch_us(r.$time) < h.first THEN 'late'
        WHEN r."#reached" $beyond r.$ordered THEN 'unordered'
        WHEN m.matched OR w.matched THEN 'closed' END AS "#ruled", $overtaken AS "#overtaken",
    CASE WHEN p.since < r.$offset THEN p.since END AS "#since", m.matched AS "#matched", e.ended AS "#ended",
    x.reason AS "#elsewhere", x."#partition", x."#offset"
FROM (
    SELECT *, max($time) OVER before AS newest, $reached AS "#reached" FROM $rows
    WINDOW before AS (
        PARTITION BY $partition ORDER BY $offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
) r
ASOF LEFT JOIN $heartbeats h ON h."partition" = r.$partition AND h."offset" < r.$offset
LEFT JOIN (
    SELECT "partition", $key, min("offset") AS since FROM $promises GROUP BY ALL
) p ON p."partition" = r.$partition AND $promised
LEFT JOIN (
    SELECT DISTINCT r.$partition AS part, r.$offset AS off, true AS matched
    FROM $rows r JOIN $patterns q ON q."partition" = r.$partition AND q."offset" < r.$offset AND $within
) m ON m.part = r.$partition AND m.off = r.$offset
LEFT JOIN (
    SELECT DISTINCT r.$partition AS part, r.$offset AS off, true AS matched
    FROM $rows r JOIN $wider q ON q."partition" = r.$partition AND q."offset" < r.$offset AND $within_wider
) w ON w.part = r.$partition AND w.off = r.$offset
LEFT JOIN (
    SELECT part, run, min(off) AS ended FROM (
        SELECT $partition AS part, $offset AS off, row($own_key) AS own,
            lag(row($own_key)) OVER (PARTITION BY $partition ORDER BY $offset) AS run
        FROM $rows
    ) WHERE $clustered AND run <> own GROUP BY ALL
) e ON e.part = r.$partition AND e.run = row($own_key)
LEFT JOIN $elsewhere x ON x.part = r.$partition AND x.off = r.$offset
)))
"""

_ASIDE = "INSERT INTO $judged BY NAME FROM $aside"

_VIOLATIONS = """
INSERT INTO expected_violations
SELECT ?, $partition, $offset, violation, $time, b.promise, b.promise_partition, b.promise_offset,
    json_object($record)::VARCHAR
FROM $judged LEFT JOIN $broken b ON b."partition" = $partition AND b."offset" = $offset
WHERE violation <> 'filtered'
"""

# Each lookup takes the rows that the one before it has made.
_PROCESSED = "CREATE VIEW $made AS FROM $judged WHERE violation IS NULL"

# No row of a derived stream is a violation.
_ARRIVED = "CREATE VIEW $made AS FROM $rows"

_LOOKED_UP = "CREATE VIEW $made AS SELECT l.* $columns FROM $came l $join $relation r ON $equal"

_SIDE = "CREATE TABLE $side AS SELECT $columns FROM $made"
_DERIVED_SIDE = 'CREATE TABLE $side AS SELECT $columns, "#sure" FROM $made'

# A lookup refuses a record if it leaves none of its rows.
_MISSED = """
INSERT INTO $found
SELECT DISTINCT $partition::BIGINT, $offset,
    ? AND ($partition, $offset) NOT IN (SELECT ($partition, $offset) FROM $made), 'no_match'
FROM $came l WHERE NOT EXISTS (FROM $relation r WHERE $equal)
"""

_ALL_MISSED = """
CREATE TABLE $missed AS
SELECT part, off, bool_or(refused) AS refused, bool_or(reason = 'no_match') AS unmatched
FROM $found GROUP BY ALL
"""

# Without a join, no row is live.
_FINAL_ALONE = "INSERT INTO $final SELECT $key FROM $closed"


def expect(session: Session, pipeline: Pipeline) -> None:
    """Make `expected_<table>` for all tables but groups, from the tables of `classify` and `load_relations`.

    The results of a stage are rows of the next one, and only those of the last stage stay.
    If partitions can be idle, `uncertain_results` has rows that may or may not be in the table. That depends
    on how far the job had read each partition at which time.

    This also makes `judged_<stream>`, all rows with their `violation` or NULL, and `side_<stream>`, the rows
    that enter the join. `missed_<stream>` has the places of rows that a lookup has no match for, and whether
    they are `refused` as dead letters.

    Raises:
        ConfigError: `where` is no condition over the columns of a result.
    """
    session.run(
        'CREATE TABLE expected_violations (topic VARCHAR, "partition" INTEGER, "offset" BIGINT, '
        "reason VARCHAR, event_time TIMESTAMPTZ, promise VARCHAR, promise_partition INTEGER, "
        "promise_offset BIGINT, record VARCHAR)"
    )
    session.run("CREATE TABLE progress (stream VARCHAR, lowest BIGINT, highest BIGINT)")
    for stage in pipeline.stages:
        _expect_stage(session, stage)


def _expect_stage(session: Session, stage: Stage) -> None:
    pipeline, earlier, derived = stage.pipeline, stage.earlier, stage.derived
    if earlier is not None and derived is not None:
        derive(session, stage, earlier, derived)
        _look_up_derived(session, pipeline, derived)
    for final in ("final", "possibly_final"):
        session.create(final, {key_column(column): kind for column, kind in stage.key_types.items()})
    for given in stage.streams:
        _expect_input(session, pipeline, given)
    close_keys(session, stage)
    if earlier is not None and derived is not None:
        close_derived_keys(session, stage, earlier, derived)
    join(session, stage)
    for final, reached in (("final", "lowest"), ("possibly_final", "highest")):
        if stage.join is not None and (final == "final" or is_uncertain(stage)):
            find_final(session, stage, final, reached)
        if stage.join is None:
            (given,) = stage.inputs
            known = stream_names(pipeline, given) | {"closed": closed_keys(stage, given, reached)}
            session.run(_FINAL_ALONE, final=final, **known)
            close_alone(session, pipeline, final, reached)


def _expect_input(session: Session, pipeline: Pipeline, given: str) -> None:
    """Judge the rows of a stream or of the members of a union, and expect the tables of its steps."""
    # A member's row of an idle partition is overtaken by the progress of all members.
    for stream in pipeline.flow.members_of(given):
        measure_progress(session, pipeline, stream)
    for stream in pipeline.flow.members_of(given):
        _judge(session, pipeline, stream)
    if given in pipeline.flow.unions:
        unite_rows(session, pipeline, given)
        unite_promises(session, pipeline, given, ["patterns", "wider"])
    _keep_processed(session, pipeline, given)
    expect_steps(session, pipeline, given)
    expect_latest(session, pipeline, given)


def _judge(session: Session, pipeline: Pipeline, stream: str) -> None:
    declared, known = pipeline.streams[stream], stream_names(pipeline, stream)
    lateness, key = microseconds(declared.event_time.lateness), pipeline.stage_of(stream).key

    def among(columns: tuple[str, ...]) -> str:
        return within({column: f"r.{name(f'{stream}_{column}')}" for column in columns})

    wider = wider_columns(declared, key)
    find_closed_elsewhere(session, pipeline, stream)
    session.run(
        _JUDGED,
        [lateness],
        within=among(key),
        within_wider=among(wider),
        unique=str(bool(declared.unique)),
        clustered=str(bool(declared.clustered)),
        by_row=text("unclustered" if declared.clustered else "repeated"),
        own_key=names([f"{stream}_{column}" for column in key]),
        overtaken=possibly_idle(pipeline, stream),
        elsewhere=name(f"elsewhere_{stream}"),
        **ordering(pipeline, stream),
        **known,
    )
    session.run(_ASIDE, aside=name(f"aside_{stream}"), **known)
    filter_duplicates(session, pipeline, stream)
    name_promises(session, pipeline, stream)
    record = ", ".join(
        f"{text(column)}, {spelled(name(f'{stream}_{column}'), kind)}"
        for column, kind in pipeline.stream_columns(pipeline.flow.taker_of(stream)).items()
    )
    broken = name(f"broken_{stream}")
    session.run(_VIOLATIONS, [declared.topic], broken=broken, record=record, **known)


def _keep_processed(session: Session, pipeline: Pipeline, stream: str) -> None:
    """Make `side_<stream>` and `missed_<stream>`, and expect dead letters for rows that a lookup refuses."""
    known = stream_names(pipeline, stream)
    came, found, missed = name(f"processed_{stream}"), f"misses_{stream}", name(f"missed_{stream}")
    session.run(_PROCESSED, made=came, **known)
    session.create(
        found,
        {
            "part": ColumnType.LONG,
            "off": ColumnType.LONG,
            "refused": ColumnType.BOOLEAN,
            "reason": ColumnType.STRING,
        },
    )
    checked = pipeline.stage_of(stream).columns.looked_up_steps(stream)
    for each in pipeline.flow.paths[stream]:
        step = pipeline.steps[each]
        if each in checked:
            came = step_looked_up(session, pipeline, stream, checked[each], came, name(found))
        if not isinstance(step, LookupStep):
            continue
        lookup = step.lookup
        made, parts = name(f"behind_{lookup.relation}"), _lookup(pipeline, lookup)
        session.run(_LOOKED_UP, came=came, made=made, **parts)
        refuses = lookup.fate == "dead_letter"
        session.run(_MISSED, [refuses], found=name(found), came=came, made=made, **known, **parts)
        came = made
    session.run(_ALL_MISSED, found=name(found), missed=missed)
    if stream in pipeline.flow.unions:
        part_missed(session, pipeline, stream)
    for member in pipeline.flow.members_of(stream):
        places = name(f"missed_{member}"), name(f"misses_{member}")
        expect_letters(session, pipeline.streams[member].topic, *places)
    session.run(_SIDE, columns=names(list(pipeline.side_columns(stream))), made=came, **known)


def _look_up_derived(session: Session, pipeline: Pipeline, given: str) -> None:
    """Make `side_<derived>`. The row of a derived stream is no record, so it is never a dead letter."""
    known, came = stream_names(pipeline, given), name(f"processed_{given}")
    session.run(_ARRIVED, made=came, **known)
    for lookup in pipeline.lookups_of(given):
        made = name(f"behind_{lookup.relation}")
        session.run(_LOOKED_UP, came=came, made=made, **_lookup(pipeline, lookup))
        came = made
    session.run(_DERIVED_SIDE, columns=names(list(pipeline.side_columns(given))), made=came, **known)


def _lookup(pipeline: Pipeline, lookup: Lookup) -> dict[str, str]:
    """Return the SQL of a lookup: its kind of join, R as `r`, the condition of a match, and R's columns."""
    join = "LEFT JOIN" if lookup.fate == "nulls" else "JOIN"
    declared, relation = pipeline.relations[lookup.relation], name(f"relation_{lookup.relation}")
    equal = " AND ".join(f"r.{theirs} = l.{ours}" for ours, theirs in lookup_key(pipeline, lookup))
    time = pipeline.asked_by(lookup).time
    if lookup.as_of is not None and time is not None:
        since = name(f"{lookup.relation}_{lookup.as_of.relation}")
        equal += f" AND l.{name(time.in_results)} >= r.{since}"
        join, relation = f"ASOF {join}", f"(FROM {relation} WHERE {since} IS NOT NULL)"
    found = [
        f", r.{name(f'{lookup.relation}_{each}')}" for each in declared.columns if each not in declared.key
    ]
    return {"join": join, "relation": relation, "equal": equal, "columns": "".join(found)}
