"""Bounds of progress without silent partitions, and the rows that progress may have overtaken.

`verify` cannot know how far the job had read each partition when it found one idle. For a stream with
`event_time.idle` it therefore accepts each possible violation of reason `idle`, and knows progress between
two bounds. `idle` itself may have been turned, and `verify` cannot know from which batch on, so it accepts
all its values.
"""

from __future__ import annotations

from endmark.pipeline import Pipeline
from endmark.pipeline.stage import Stage
from endmark.verify.join.sides import microseconds, stream_names
from endmark.verify.session import Session, fill, name, text

_MILLISECOND = 1000  # in microseconds; Kafka's timestamps are in milliseconds

_NOTED = """
CREATE TABLE idle_violations AS
SELECT topic, "partition", "offset" FROM actual_violations WHERE reason = 'idle'
"""

# A partition without records counts as silent since the topic's first record. A heartbeat counts as a row
# that makes each row late which the heartbeat rules out.
_PARTITIONS = """
CREATE TABLE $partitions AS
SELECT ranges."partition" AS part, newest, coalesce(heard, min(first) OVER ()) AS heard,
    min(first) OVER () AS begun, max(heard) OVER () AS ended
FROM ranges LEFT JOIN (
    SELECT part, max(time) AS newest FROM (
        SELECT $partition AS part, epoch_us($time) AS time FROM $rows
        UNION ALL SELECT "partition", first + $lateness FROM $heartbeats
    ) GROUP BY part
) r ON r.part = ranges."partition" LEFT JOIN (
    SELECT "partition" AS part, min("timestamp") AS first, max("timestamp") AS heard
    FROM records WHERE topic = ? GROUP BY part
) h ON h.part = ranges."partition"
WHERE ranges.topic = ?
"""

# At the end the job knew all these timestamps, which gives the lower bound. Earlier it may have made more
# progress, but never beyond the newest row.
_PROGRESS = """
INSERT INTO progress
SELECT ?, lowest - $lateness, CASE WHEN could_idle THEN newest ELSE lowest END - $lateness
FROM (
    SELECT CASE WHEN bool_and(newest IS NOT NULL OR idle) THEN min(newest) FILTER (NOT idle) END AS lowest,
        max(newest) AS newest, bool_or((ended - begun) * $millisecond > $least) AS could_idle
    FROM (SELECT *, coalesce((ended - heard) * $millisecond > $most, false) AS idle FROM $partitions)
)
"""

# Another partition has a record so late that this partition could be idle, and another has a row so new that
# progress could overtake this row. The progress of a union is that of no member alone.
_POSSIBLE = """
EXISTS (FROM idle_violations g WHERE g.topic = $topic
    AND g."partition" = r.$partition AND g."offset" = r.$offset)
AND EXISTS (FROM $partitions e WHERE e.part <> r.$partition AND (e.heard - e.begun) * $millisecond > $least)
AND EXISTS (FROM $partitions e WHERE e.part <> r.$partition AND e.newest - $lateness > epoch_us(r.$time))
AND NOT EXISTS (
    FROM progress p WHERE p.stream IN ($others) AND NOT coalesce(p.highest > epoch_us(r.$time), false)
)
"""


def note_idle_violations(session: Session) -> None:
    """Make `idle_violations` from `actual_violations`: the places of all violations of reason `idle`."""
    session.run(_NOTED)


def measure_progress(session: Session, pipeline: Pipeline, stream: str) -> None:
    """Make `partitions_<stream>` and the stream's row of `progress` from `rows_<stream>` and
    `heartbeats_<stream>`.

    The row has the name of the stream, and the least and the greatest event time in microseconds that its
    progress may have reached. These differ only if partitions can be idle. They are NULL if some partition
    had no row and is not idle.

    Args:
        session: the session.
        pipeline: the pipeline.
        stream: the name of the stream.
    """
    declared, known = pipeline.streams[stream], stream_names(pipeline, stream)
    partitions, lateness = name(f"partitions_{stream}"), str(microseconds(declared.event_time.lateness))
    topics = [declared.topic, declared.topic]
    session.run(_PARTITIONS, topics, partitions=partitions, lateness=lateness, **known)
    session.run(
        _PROGRESS,
        [stream],
        partitions=partitions,
        lateness=lateness,
        **_idle(pipeline, stream),
        millisecond=str(_MILLISECOND),
    )


def possibly_idle(pipeline: Pipeline, stream: str) -> str:
    """Return the condition that a row `r` is in the violations table for reason `idle`, and may be there."""
    declared = pipeline.streams[stream]
    if declared.event_time.idle is None:
        return "false"
    others = set(pipeline.flow.members_of(pipeline.flow.taker_of(stream))) - {stream}
    return fill(
        _POSSIBLE,
        topic=f"'{declared.topic}'",
        others=", ".join(map(text, sorted(others))) or "NULL",
        partitions=name(f"partitions_{stream}"),
        least=_idle(pipeline, stream)["least"],
        lateness=str(microseconds(declared.event_time.lateness)),
        millisecond=str(_MILLISECOND),
        **{part: stream_names(pipeline, stream)[part] for part in ("partition", "offset", "time")},
    )


def is_uncertain(stage: Stage) -> bool:
    """Return whether the two bounds of the progress of some input may differ.

    Those of a derived stream also differ while rows of closed keys stay that the job may have forgotten. If
    its key is that of the stage before, it depends on the batches which keys it closes by name.
    """
    streams = stage.pipeline.streams.values()
    forgets = stage.earlier is not None and any(each.forget_keys_after is not None for each in streams)
    return any(each.event_time.idle is not None for each in streams) or forgets or bool(stage.same_key)


def _idle(pipeline: Pipeline, stream: str) -> dict[str, str]:
    """The SQL of the least and the greatest value that `idle` may have had, in microseconds."""
    idle = microseconds(pipeline.streams[stream].event_time.idle)
    if idle is None:
        return {"least": "NULL", "most": "NULL"}
    turns = f"FROM idle_turns WHERE stream = '{stream}'"
    return {
        "least": f"least({idle}, (SELECT min(idle) {turns}))",
        "most": f"greatest({idle}, (SELECT max(idle) {turns}))",
    }
