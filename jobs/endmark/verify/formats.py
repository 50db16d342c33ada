"""The wire formats as `verify` reads them: how a record becomes flat JSON, and why one is a dead letter.

`verify` has a table of formats of its own, since it shares no code with the engine's parsers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from endmark.pipeline import Pipeline, Stream
from endmark.verify import debezium, reasons, xml
from endmark.verify.extra_members import without_extra
from endmark.verify.session import Session, name, text


@dataclass(frozen=True)
class Format:
    """A wire format, read one record at a time.

    Args:
        reason: returns the reason why a record is a dead letter, for one that is.
        flat: returns a row or a punctuation as flat JSON, and `None` for any other record. `None` as `flat`
            means that the records are flat JSON already. Members that are not declared may be left in it.
        heartbeats: whether a punctuation on the event time may be a heartbeat.
        tombstones: whether a record without a value is skipped, such as the one that Debezium puts behind a
            deletion for Kafka's compaction.
    """

    reason: Callable[[bytes, Stream], str]
    flat: Callable[[bytes, Stream], bytes | None] | None = None
    heartbeats: bool = True
    tombstones: bool = False


FORMATS = {
    "json": Format(reasons.of_json),
    "xml": Format(reasons.of_xml, xml.flat),
    "debezium": Format(reasons.of_debezium, debezium.flat, heartbeats=False, tombstones=True),
}

_FLAT = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("value", pa.binary())])

_AS_IT_IS = """
CREATE VIEW $flat AS SELECT "partition", "offset", value FROM records WHERE topic = $topic
"""

_SKIPPED = """
CREATE TABLE $skipped AS
SELECT "partition", "offset" FROM records WHERE topic = ? AND ? AND value IS NULL
"""

_OTHERS = """
SELECT "partition", "offset", value FROM records ANTI JOIN $skipped USING ("partition", "offset")
WHERE topic = ?
"""

_UNNAMED = """
SELECT topic, "partition", "offset", value FROM expected_dead_letters WHERE reason IS NULL AND topic = ?
"""

_NAME = """
UPDATE expected_dead_letters e SET reason = a.reason FROM arriving a
WHERE e.topic = a.topic AND e."partition" = a."partition" AND e."offset" = a."offset"
"""

_NAMED = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("reason", pa.string())]
)


def flatten(session: Session, stream: str, declared: Stream) -> None:
    """Make `flat_<stream>` and `skipped_<stream>` from `records`.

    `flat_<stream>` has partition, offset, and the row or punctuation of a record as flat JSON, or NULL for
    any other record. Under `extra: ignore`, rows lack the members that do not count. `skipped_<stream>` has
    the places of tombstones, which `flat_<stream>` leaves out.

    Args:
        session: the session.
        stream: the name of the stream.
        declared: the stream in the pipeline file.
    """
    flat, skipped = name(f"flat_{stream}"), name(f"skipped_{stream}")
    form = FORMATS[declared.format]
    session.run(_SKIPPED, [declared.topic, form.tombstones], skipped=skipped)
    if form.flat is None and declared.extra != "ignore":
        session.run(_AS_IT_IS, flat=flat, topic=text(declared.topic))
        return
    records = session.run(_OTHERS, [declared.topic], skipped=skipped)
    for record in records:
        value = record["value"] or b""
        found = value if form.flat is None else form.flat(value, declared)
        record["value"] = None if found is None else without_extra(found, declared)
    session.run_on(pa.Table.from_pylist(records, _FLAT), "CREATE TABLE $flat AS FROM arriving", flat=flat)


def name_reasons(session: Session, pipeline: Pipeline) -> None:
    """Fill in the reasons that `classify` and `classify_control` left out of `expected_dead_letters`."""
    streams: dict[str, Stream | None] = {pipeline.control_topic: None}
    streams |= {declared.topic: declared for declared in pipeline.streams.values()}
    for topic, declared in streams.items():
        found = session.run(_UNNAMED, [topic])
        for letter in found:
            letter["reason"] = reason_of(letter.pop("value"), declared)
        session.run_on(pa.Table.from_pylist(found, _NAMED), _NAME)


def reason_of(value: bytes | None, declared: Stream | None) -> str:
    """Return the reason why a record is a dead letter.

    Args:
        value: the bytes of the record; `None` for a record without a value.
        declared: the stream in the pipeline file; `None` for the control topic.
    """
    try:
        if declared is None:
            return reasons.of_control(value or b"")
        return FORMATS[declared.format].reason(value or b"", declared)
    except reasons.UnreadableError as why:
        return str(why)
