"""How `verify` reads each wire format: a record as flat JSON, and the reason why one is a dead letter.

This table is `verify`'s own, since it shares no code with the engine's parsers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from endmark.pipeline import Pipeline, Stream
from endmark.verify import debezium, reasons, xml
from endmark.verify.session import Session, name, text


@dataclass(frozen=True)
class Format:
    """A wire format, read one record at a time.

    Args:
        reason: returns the reason why a record is a dead letter, given that it is one.
        flat: returns a row or a punctuation as flat JSON, and `None` for any other record. Without it records
            are flat JSON as they are.
        tombstones: whether a record without a value says nothing, as the one that Debezium puts behind a
            deletion for Kafka's compaction.
    """

    reason: Callable[[bytes, Stream], str]
    flat: Callable[[bytes, Stream], bytes | None] | None = None
    tombstones: bool = False


FORMATS = {
    "json": Format(reasons.of_json),
    "xml": Format(reasons.of_xml, xml.flat),
    "debezium": Format(reasons.of_debezium, debezium.flat, tombstones=True),
}

_SPOKEN = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("value", pa.binary())])

_AS_IT_IS = """
CREATE VIEW $spoken AS SELECT "partition", "offset", value FROM records WHERE topic = $topic
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


def speak(session: Session, stream: str, declared: Stream) -> None:
    """Make `spoken_<stream>` from `records`: partition, offset, and the record as flat JSON.

    The value is a row or a punctuation, or NULL for any other record. Records in `skipped_<stream>` are left
    out.

    Args:
        session: the session.
        stream: the stream's name.
        declared: the stream in the pipeline file.
    """
    spoken, skipped = name(f"spoken_{stream}"), name(f"skipped_{stream}")
    form = FORMATS[declared.format]
    session.run(_SKIPPED, [declared.topic, form.tombstones], skipped=skipped)
    if form.flat is None:
        session.run(_AS_IT_IS, spoken=spoken, topic=text(declared.topic))
        return
    records = session.run(_OTHERS, [declared.topic], skipped=skipped)
    for record in records:
        record["value"] = form.flat(record["value"] or b"", declared)
    session.run_on(
        pa.Table.from_pylist(records, _SPOKEN), "CREATE TABLE $spoken AS FROM arriving", spoken=spoken
    )


def name_reasons(session: Session, pipeline: Pipeline) -> None:
    """Fill in `reason` in `expected_dead_letters`, where `classify` has left it out."""
    streams: dict[str, Stream | None] = {pipeline.control_topic: None}
    streams |= {declared.topic: declared for declared in pipeline.streams.values()}
    for topic, declared in streams.items():
        found = session.run(_UNNAMED, [topic])
        for letter in found:
            letter["reason"] = reason_of(letter.pop("value"), declared)
        session.run_on(pa.Table.from_pylist(found, _NAMED), _NAME)


def reason_of(value: bytes | None, declared: Stream | None) -> str:
    """Return the reason why a record is a dead letter; a stream of `None` is the control topic."""
    try:
        if declared is None:
            return reasons.of_control(value or b"")
        return FORMATS[declared.format].reason(value or b"", declared)
    except reasons.UnreadableError as why:
        return str(why)
