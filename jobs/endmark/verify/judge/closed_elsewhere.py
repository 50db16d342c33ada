"""Finds the rows whose key a promise of another partition has closed.

A stream whose promises name keys is partitioned by its key, so it has no such rows. If a producer breaks
this, the job joins a row that it reads before the promise or with it, and sets aside one that it reads later.
`verify` cannot know which was first, since Kafka has no order of records of several partitions. So it takes
the job's word for such rows, and recomputes all else.
"""

from __future__ import annotations

from endmark.pipeline import Pipeline
from endmark.verify.join.sides import key_column, stream_names
from endmark.verify.session import Session, name

# A row of a clustered stream closes the key of the row before it, if that is another one.
#
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
        SELECT $named_key, $partition, $offset FROM $rows WHERE $unique UNION ALL
        SELECT $last_key, $partition, $offset FROM $rows WHERE $clustered
        WINDOW before AS (PARTITION BY $partition ORDER BY $offset)
        QUALIFY $last_own <> $own
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
    declared, stage = pipeline.streams[stream], pipeline.stage_of(stream)
    own = list(map(name, stage.key_columns(stream)))
    last = [f"lag({column}) OVER before" for column in own]
    named = zip(last, stage.key, strict=True)
    session.run(
        _ELSEWHERE,
        [declared.topic],
        elsewhere=name(f"elsewhere_{stream}"),
        is_told=_IS_TOLD,
        unique=str(bool(declared.unique)),
        clustered=str(bool(declared.clustered)),
        own=f"row({', '.join(own)})",
        last_own=f"row({', '.join(last)})",
        last_key=", ".join(f"{column} AS {name(key_column(key))}" for column, key in named),
        keyed=str(declared.punctuation_scope == "partition"),
        **stream_names(pipeline, stream),
    )
