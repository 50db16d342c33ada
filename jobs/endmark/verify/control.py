"""The control topic: which of its records are what they should be."""

from __future__ import annotations

from endmark.pipeline import Pipeline
from endmark.verify.report import TopicCounts
from endmark.verify.session import Session

# A pulse holds no text but its name, so a comma anywhere in it is one too many.
_PULSES = """
CREATE TABLE pulses AS
SELECT "partition", "offset" FROM (
    SELECT "partition", "offset", CASE WHEN json_valid(body) AND NOT contains(body, ',') THEN body END AS body
    FROM (SELECT "partition", "offset", try(decode(value)) AS body FROM records WHERE topic = ?)
) WHERE json_keys(body) = ['pulse'] AND json_type(body, '/pulse') = 'OBJECT'
    AND len(json_keys(body, '/pulse')) = 0
"""

_REJECTED = """
INSERT INTO expected_dead_letters
SELECT topic, "partition", "offset", value FROM records ANTI JOIN pulses USING ("partition", "offset")
WHERE topic = ?
"""

_COUNTS = """
SELECT (SELECT count(*) FROM records WHERE topic = ?) AS records, (SELECT count(*) FROM pulses) AS pulses,
    (SELECT count(*) FROM expected_dead_letters WHERE topic = ?) AS dead_letters
"""

CONTROL_UNBALANCED = """
SELECT records, pulses, rejected FROM (
    SELECT (SELECT count(*) FROM records WHERE topic = ?) AS records,
        (SELECT count(*) FROM pulses) AS pulses,
        (SELECT count(*) FROM actual_dead_letters WHERE topic = ?) AS rejected
) WHERE records <> pulses + rejected
"""


def classify_control(session: Session, pipeline: Pipeline) -> None:
    """From `records`, make `pulses`; what else the control topic has joins `expected_dead_letters`."""
    session.run(_PULSES, [pipeline.control_topic])
    session.run(_REJECTED, [pipeline.control_topic])


def count_control(session: Session, pipeline: Pipeline) -> TopicCounts:
    """What became of the control topic's records."""
    topic = pipeline.control_topic
    (found,) = session.run(_COUNTS, [topic, topic])
    return TopicCounts(
        topic=topic,
        records=found["records"],
        rows=0,
        punctuations=0,
        dead_letters=found["dead_letters"],
        violations={},
        processed=found["pulses"],
        lookup_missed=0,
    )
