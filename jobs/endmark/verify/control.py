"""The control topic: which of its records are what they should be."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from endmark.errors import ConfigError
from endmark.pipeline import Pipeline
from endmark.pipeline.fields import Model
from endmark.verify.report import TopicCounts
from endmark.verify.session import Session

Part = TypeVar("Part", bound=Model)

KNOBS = {
    "lookup": {"strategy", "page_rows", "time_per_batch", "memory"},
    "cache": {"memory", "lifetime", "absent_lifetime"},
    "join": {"purge_every", "memory"},
    "batch": {"records", "every"},
}
BY_LENGTH = 200
REASON_LENGTH = 500

# A pulse holds no text but its name, so a comma anywhere in it is one too many.
_PULSES = """
CREATE TABLE heeded AS
SELECT "partition", "offset" FROM (
    SELECT "partition", "offset", CASE WHEN json_valid(body) AND NOT contains(body, ',') THEN body END AS body
    FROM (SELECT "partition", "offset", try(decode(value)) AS body FROM records WHERE topic = ?)
) WHERE json_keys(body) = ['pulse'] AND json_type(body, '/pulse') = 'OBJECT'
    AND len(json_keys(body, '/pulse')) = 0
"""

_OTHERS = """
SELECT "partition", "offset", value FROM records ANTI JOIN heeded USING ("partition", "offset")
WHERE topic = ?
"""

_REJECTED = """
INSERT INTO expected_dead_letters
SELECT topic, "partition", "offset", value FROM records ANTI JOIN heeded USING ("partition", "offset")
WHERE topic = ?
"""

_COUNTS = """
SELECT (SELECT count(*) FROM records WHERE topic = ?) AS records, (SELECT count(*) FROM heeded) AS heeded,
    (SELECT count(*) FROM expected_dead_letters WHERE topic = ?) AS dead_letters
"""

CONTROL_UNBALANCED = """
SELECT records, heeded, rejected FROM (
    SELECT (SELECT count(*) FROM records WHERE topic = ?) AS records,
        (SELECT count(*) FROM heeded) AS heeded,
        (SELECT count(*) FROM actual_dead_letters WHERE topic = ?) AS rejected
) WHERE records <> heeded + rejected
"""


def classify_control(session: Session, pipeline: Pipeline) -> None:
    """From `records`, make `heeded`; what else the control topic has joins `expected_dead_letters`."""
    session.run(_PULSES, [pipeline.control_topic])
    # A record at a time, since people write them.
    for record in session.run(_OTHERS, [pipeline.control_topic]):
        if _sets_a_knob(pipeline, record["value"] or b""):
            session.run("INSERT INTO heeded VALUES (?, ?)", [record["partition"], record["offset"]])
    session.run(_REJECTED, [pipeline.control_topic])


def _sets_a_knob(pipeline: Pipeline, value: bytes) -> bool:
    try:
        found = json.loads(value.decode("utf-8"), object_pairs_hook=_members)
    except (ValueError, RecursionError):
        return False
    if not isinstance(found, dict) or set(found) - {"why"} != {"by", "set"}:
        return False
    why = found.get("why")
    if why is not None and not (isinstance(why, str) and why.isprintable() and len(why) <= REASON_LENGTH):
        return False
    by, setting = found["by"], found["set"]
    if not (isinstance(by, str) and by.isprintable() and 1 <= len(by) <= BY_LENGTH):
        return False
    one = isinstance(setting, dict) and len(setting) == 1
    return one and all(_is_possible(pipeline, name, to) for name, to in setting.items())


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice")
    return found


def _is_possible(pipeline: Pipeline, name: str, value: Any) -> bool:
    """Whether the pipeline file could say so."""
    step, _, field = name.rpartition(".")
    lookups = {f"lookup.{lookup.relation}": lookup for lookup in pipeline.lookups}
    if len(lookups) == 1:
        lookups = {"lookup": pipeline.lookups[0]}
    caches = {f"{name}.cache": lookup.cache for name, lookup in lookups.items() if lookup.cache is not None}
    try:
        if step == "join" and field in KNOBS["join"]:
            _changed(pipeline.join, field, value).policy()
        elif step == "batch" and field in KNOBS["batch"]:
            _changed(pipeline.batch, field, value)
        elif step in lookups and field in KNOBS["lookup"]:
            _changed(lookups[step], field, value)
        elif step in caches and field in KNOBS["cache"]:
            _changed(caches[step], field, value)
        else:
            return False
    except (ValueError, ConfigError):
        return False
    return True


def _changed(declared: Part, field: str, value: Any) -> Part:
    return type(declared).model_validate({**declared.model_dump(), field: value})


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
        processed=found["heeded"],
        lookup_missed=0,
    )
