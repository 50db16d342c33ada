"""Finds the rows whose key a promise of another partition has closed.

A stream whose promises name keys is partitioned by its key, so it has no such rows. If a producer breaks
this, the job joins a row that it reads before the promise or with it, and sets aside one that it reads later.
`verify` cannot know which was first, since Kafka has no order of records of several partitions. So it takes
the job's word for such rows, and recomputes all else.
"""

from __future__ import annotations

from endmark.pipeline import Pipeline
from endmark.verify.join_sides import stream_names
from endmark.verify.session import Session, name

# The promise is that of the violation, if it names the row's key. The job does not know the place of a
# promise that is not recent: it counts as one of the row's own partition, and has no offset.
_ELSEWHERE = """
CREATE TABLE $elsewhere AS
SELECT part, off, reason, "#offset",
    CASE WHEN "#offset" IS NULL THEN part ELSE "#partition" END AS "#partition"
FROM (
    SELECT r.$partition AS part, r.$offset AS off, v.reason, v.promise_offset IS NULL AS unplaced,
        any_value(p."partition") FILTER ($is_told) AS "#partition",
        any_value(p."offset") FILTER ($is_told) AS "#offset"
    FROM $rows r
    JOIN actual_violations v ON v.topic = ? AND v."partition" = r.$partition AND v."offset" = r.$offset
    JOIN (
        SELECT $key, "partition", "offset" FROM $promises UNION ALL
        SELECT $named_key, $partition, $offset FROM $rows WHERE $by_row
    ) p ON $promised AND p."partition" <> r.$partition
    WHERE $keyed AND v.reason IN ('closed', 'repeated', 'unclustered') AND v.promise IS NOT NULL
    GROUP BY ALL
)
WHERE unplaced OR "#offset" IS NOT NULL
"""
_IS_TOLD = 'p."partition" = v.promise_partition AND p."offset" = v.promise_offset'


def find_closed_elsewhere(session: Session, pipeline: Pipeline, stream: str) -> None:
    """Make `elsewhere_<stream>` from `rows_<stream>`, `promises_<stream>` and `actual_violations`.

    It has `part` and `off` of each row that the job may have set aside for a promise of another partition,
    and did, with its `reason` and the place of the promise.
    """
    declared = pipeline.streams[stream]
    session.run(
        _ELSEWHERE,
        [declared.topic],
        elsewhere=name(f"elsewhere_{stream}"),
        is_told=_IS_TOLD,
        by_row=str(bool(declared.unique or declared.clustered)),
        keyed=str(declared.punctuation_scope == "partition"),
        **stream_names(pipeline, stream),
    )
