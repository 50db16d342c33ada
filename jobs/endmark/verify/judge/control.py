"""Classifies the records of the control topic: turns of knobs, questions, pulses and dead letters."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from endmark.errors import ConfigError
from endmark.pipeline import Batch, EventTime, JoinStep, Lookup, Pipeline
from endmark.pipeline.fields import Model
from endmark.pipeline.steps.lookup import Cache, LookupStep
from endmark.verify.formats.patterns import value_of
from endmark.verify.join.sides import microseconds
from endmark.verify.report import TopicCounts
from endmark.verify.session import Session

Part = TypeVar("Part", bound=Model)

KNOBS: dict[type[Model], set[str]] = {
    Lookup: {"strategy", "page_rows", "time_per_batch", "memory"},
    Cache: {"memory", "lifetime", "absent_lifetime"},
    JoinStep: {"purge_every", "memory"},
    Batch: {"records", "every"},
    EventTime: {"idle"},
}
BY_LENGTH = 200
REASON_LENGTH = 500

# The only text in a pulse is its name, so any comma in it is a trailing comma.
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
INSERT INTO expected_dead_letters BY NAME
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
    """Make `heeded`, the turns, questions and pulses of the control topic, and `idle_turns` from `records`.

    All other records of the control topic are added to `expected_dead_letters`. Each row of `idle_turns` is a
    time in microseconds after which partitions of a stream were idle.
    """
    session.run("CREATE TABLE idle_turns (stream VARCHAR, idle BIGINT)")
    session.run(_PULSES, [pipeline.control_topic])
    # Python takes these one by one: people write them, so they are few.
    for record in session.run(_OTHERS, [pipeline.control_topic]):
        found = _read(record["value"] or b"")
        turn = _turn(pipeline, found)
        if turn is None and not _is_question(pipeline, found):
            continue
        session.run("INSERT INTO heeded VALUES (?, ?)", [record["partition"], record["offset"]])
        if turn is not None and isinstance(turn[1], EventTime):
            idle = [turn[0].split(".")[1], microseconds(turn[1].idle)]
            session.run("INSERT INTO idle_turns VALUES (?, ?)", idle)
    session.run(_REJECTED, [pipeline.control_topic])


def _read(value: bytes) -> dict[str, Any]:
    """The members of a record; none if it is no JSON object."""
    try:
        found = json.loads(value.decode("utf-8"), object_pairs_hook=_members)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_question(pipeline: Pipeline, found: dict[str, Any]) -> bool:
    """Return whether a record asks for a value of each column of the key of some stage."""
    key = found.get("ask")
    if set(found) != {"ask", "by"} or not _is_signed(found) or not isinstance(key, dict):
        return False
    kinds = next((stage.key_types for stage in pipeline.stages if stage.key_types.keys() == key.keys()), {})
    try:
        return bool([value_of(key[name], kind) for name, kind in kinds.items()])
    except ValueError:
        return False


def _turn(pipeline: Pipeline, found: dict[str, Any]) -> tuple[str, Model] | None:
    """The knob that a record turns, and its part of the file with the new value; `None` for no turn."""
    if set(found) - {"why"} != {"by", "set"} or not _is_signed(found):
        return None
    setting = found["set"]
    if not isinstance(setting, dict) or len(setting) != 1:
        return None
    ((name, to),) = setting.items()
    try:
        part = _with(pipeline, name, to)
    except (ValueError, ConfigError):
        return None
    return None if part is None else (name, part)


def _is_signed(found: dict[str, Any]) -> bool:
    by, why = found["by"], found.get("why")
    if why is not None and not (isinstance(why, str) and why.isprintable() and len(why) <= REASON_LENGTH):
        return False
    return isinstance(by, str) and by.isprintable() and 1 <= len(by) <= BY_LENGTH


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice")
    return found


def _with(pipeline: Pipeline, name: str, value: Any) -> Model | None:
    """The part of the pipeline file that has a knob, with a new value; `None` if there is no such knob.

    Args:
        pipeline: the pipeline.
        name: the name of the knob.
        value: the new value.

    Raises:
        ValueError, ConfigError: the pipeline file could not have this value.
    """
    step, _, field = name.rpartition(".")
    lookups = {
        f"steps.{each}.lookup": declared.lookup
        for each, declared in pipeline.steps.items()
        if isinstance(declared, LookupStep)
    }
    parts: dict[str, Model] = {"batch": pipeline.batch, **lookups}
    parts |= {
        f"steps.{each}": declared
        for each, declared in pipeline.steps.items()
        if isinstance(declared, JoinStep)
    }
    parts |= {f"{name}.cache": lookup.cache for name, lookup in lookups.items() if lookup.cache is not None}
    for stream, declared in pipeline.streams.items():
        if declared.event_time.idle is not None:
            parts[f"streams.{stream}.event_time"] = declared.event_time
    if step not in parts or field not in KNOBS[type(parts[step])]:
        return None
    part = _changed(parts[step], field, value)
    if isinstance(part, JoinStep):
        part.policy(field=step)
    return None if isinstance(part, EventTime) and part.idle is None else part


def _changed(declared: Part, field: str, value: Any) -> Part:
    return type(declared).model_validate({**declared.model_dump(), field: value})


def count_control(session: Session, pipeline: Pipeline) -> TopicCounts:
    """Count the fates of the control topic's records."""
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
