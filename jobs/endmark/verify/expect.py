"""What should be there, by the definitions of ARCHITECTURE.md, from classified records and R."""

from __future__ import annotations

from datetime import timedelta

from endmark.pipeline import COORDINATES, Measure, Pipeline
from endmark.verify.session import Session, fill, name, names

_MICROSECOND = timedelta(microseconds=1)

# A row's fate hangs on what its partition held before it, so the frame ends at the row before.
_JUDGED = """
CREATE TABLE $judged AS
SELECT r.*,
    CASE WHEN p.since < r.$offset THEN 'closed'
        WHEN epoch_us(r.newest) - epoch_us(r.$time) > ? THEN 'late' END AS violation
FROM (
    SELECT *, max($time) OVER (
        PARTITION BY $partition ORDER BY $offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS newest FROM $rows
) r
LEFT JOIN (
    SELECT "partition", key, min("offset") AS since FROM $promises GROUP BY ALL
) p ON p."partition" = r.$partition AND p.key = r.$key
"""

_VIOLATIONS = """
INSERT INTO expected_violations
SELECT ?, $partition, $offset, violation, $time FROM $judged WHERE violation IS NOT NULL
"""

_SIDE = """
CREATE TABLE $side AS SELECT $columns FROM $judged $lookup WHERE violation IS NULL
"""

_LOOKUP = "JOIN relation ON relation.$relation_key = $judged.$key"

# A difference is negative on the side of the row that came later in time, so each bound speaks for one side.
_RESULTS = """
CREATE TABLE expected_results AS
SELECT l.*, r.* FROM $left l JOIN $right r ON l.$left_key = r.$right_key
WHERE coalesce(epoch_us(r.$right_time) - epoch_us(l.$left_time) <= ?, true)
    AND coalesce(epoch_us(l.$left_time) - epoch_us(r.$right_time) <= ?, true)
"""

_PROGRESS = """
INSERT INTO progress
SELECT ?, CASE WHEN count(newest) = count(*) THEN min(newest) - ? END
FROM ranges LEFT JOIN (
    SELECT $partition AS part, max(epoch_us($time)) AS newest FROM $rows GROUP BY part
) ON part = ranges."partition"
WHERE ranges.topic = ?
"""

# A key without live rows is final too, but has no results and so no row. Where progress or the window is
# NULL (a silent partition, a window without end), the comparison is not true. A row at exactly progress may
# still come, so the window is left only beyond its bound.
_FINAL = """
INSERT INTO final
SELECT closed.key
FROM (SELECT DISTINCT key FROM $promises) closed
JOIN (SELECT $key AS key, max(epoch_us($time)) AS newest FROM $side GROUP BY ALL) live USING (key)
WHERE closed.key IN (SELECT key FROM $other_promises)
    OR live.newest + ? < (SELECT reached FROM progress WHERE stream = ?)
"""

_GROUPS = """
CREATE TABLE expected_groups AS
SELECT $key AS $by, $measures FROM expected_results
WHERE $key IN (SELECT key FROM final) GROUP BY $key
"""


def expect(session: Session, pipeline: Pipeline) -> None:
    """From the tables of `classify` and `load_relation`, make `expected_<table>` for all four tables.

    Also makes `judged_<stream>`, all rows with their `violation` or NULL, and `side_<stream>`, those that
    enter the join.
    """
    session.run(
        'CREATE TABLE expected_violations (topic VARCHAR, "partition" INTEGER, "offset" BIGINT, '
        "reason VARCHAR, event_time TIMESTAMPTZ)"
    )
    session.run("CREATE TABLE progress (stream VARCHAR, reached BIGINT)")
    session.run("CREATE TABLE final (key BIGINT)")
    for stream in pipeline.sides:
        _judge(session, pipeline, stream)
        _keep_processed(session, pipeline, stream)
    _join(session, pipeline)
    left, right = pipeline.sides
    _close(session, pipeline, left, right, pipeline.join.window.left)
    _close(session, pipeline, right, left, pipeline.join.window.right)
    _group(session, pipeline)


def _microseconds(duration: timedelta | None) -> int | None:
    return None if duration is None else duration // _MICROSECOND


def _stream_names(pipeline: Pipeline, stream: str) -> dict[str, str]:
    """The tables and columns of a stream, under the names that the templates use."""
    partition, offset = (name(f"{stream}_{coordinate}") for coordinate in COORDINATES)
    return {
        "rows": name(f"rows_{stream}"),
        "promises": name(f"promises_{stream}"),
        "judged": name(f"judged_{stream}"),
        "side": name(f"side_{stream}"),
        "partition": partition,
        "offset": offset,
        "time": name(f"{stream}_{pipeline.streams[stream].event_time.column}"),
        "key": name(f"{stream}_{pipeline.join.on}"),
    }


def _judge(session: Session, pipeline: Pipeline, stream: str) -> None:
    declared, known = pipeline.streams[stream], _stream_names(pipeline, stream)
    lateness = _microseconds(declared.event_time.lateness)
    session.run(_JUDGED, [lateness], **known)
    session.run(_VIOLATIONS, [declared.topic], **known)
    session.run(_PROGRESS, [stream, lateness, declared.topic], **known)


def _keep_processed(session: Session, pipeline: Pipeline, stream: str) -> None:
    known, lookup = _stream_names(pipeline, stream), ""
    if stream == pipeline.lookup.stream:
        relation = pipeline.lookup.relation
        lookup = fill(
            _LOOKUP,
            judged=known["judged"],
            relation_key=name(f"{relation}_{pipeline.relations[relation].key}"),
            key=name(f"{stream}_{pipeline.lookup.key}"),
        )
    columns = names(list(pipeline.side_columns(stream)))
    session.run(_SIDE, columns=columns, lookup=lookup, **known)


def _join(session: Session, pipeline: Pipeline) -> None:
    left, right = (_stream_names(pipeline, stream) for stream in pipeline.sides)
    window = pipeline.join.window
    session.run(
        _RESULTS,
        [_microseconds(window.left), _microseconds(window.right)],
        left=left["side"],
        right=right["side"],
        left_key=left["key"],
        right_key=right["key"],
        left_time=left["time"],
        right_time=right["time"],
    )


def _close(session: Session, pipeline: Pipeline, stream: str, other: str, window: timedelta | None) -> None:
    session.run(
        _FINAL,
        [_microseconds(window), other],
        other_promises=name(f"promises_{other}"),
        **_stream_names(pipeline, stream),
    )


def _group(session: Session, pipeline: Pipeline) -> None:
    measures = [
        f"{_measure(pipeline, measure)} AS {name(column)}"
        for column, measure in pipeline.aggregate.measures.items()
    ]
    key = name(f"{pipeline.join.left}_{pipeline.join.on}")
    session.run(_GROUPS, key=key, by=name(pipeline.aggregate.by), measures=", ".join(measures))


def _measure(pipeline: Pipeline, measure: Measure) -> str:
    if measure.column is None:
        return "count(*)"
    origin, _, column = measure.column.partition(".")
    lookup = pipeline.lookup
    if (origin, column) == (lookup.relation, pipeline.relations[lookup.relation].key):
        # R's key is not repeated in the results: the stream's own key column equals it.
        origin, column = lookup.stream, lookup.key
    return f"max({name(f'{origin}_{column}')})"
