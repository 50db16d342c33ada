"""Finds duplicates by their definition: a partition's rows are taken one by one, in the order of offsets."""

from __future__ import annotations

from endmark.pipeline import Pipeline
from endmark.verify.join.sides import microseconds, stream_names
from endmark.verify.judge.row_steps import FILTERED
from endmark.verify.session import Session, names, text

# Each round finds the next row of each value that passes.
_DUPLICATES = """
UPDATE $judged SET violation = $filtered
WHERE violation IS NULL AND ($partition, $offset) NOT IN (
    WITH RECURSIVE sound AS (
        SELECT $partition AS part, $offset AS off, epoch_us($time) AS time,
            dense_rank() OVER (ORDER BY $partition, $by) AS value
        FROM $judged WHERE violation IS NULL
    ), passing AS (
        SELECT value, min(off) AS off FROM sound GROUP BY value
        UNION ALL
        SELECT value, min(s.off) FROM passing p
        JOIN sound o USING (value, off)
        JOIN sound s USING (value)
        WHERE s.off > o.off AND s.time > o.time + $within
        GROUP BY value
    )
    SELECT (part, off) FROM passing JOIN sound USING (value, off)
)
"""


def filter_duplicates(session: Session, pipeline: Pipeline, stream: str) -> None:
    """Mark duplicates as filtered in `judged_<stream>`, if the stream is deduplicated.

    Args:
        session: the session.
        pipeline: the pipeline.
        stream: the name of the stream.
    """
    found = pipeline.deduplicate_of(stream)
    if found is None:
        return
    _, declared = found
    within = microseconds(declared.within)
    session.run(
        _DUPLICATES,
        by=names([f"{stream}_{column}" for column in declared.by]),
        within="NULL" if within is None else str(within),
        filtered=text(FILTERED),
        **stream_names(pipeline, stream),
    )
