"""The records of a stream as flat JSON, whatever their format is."""

from __future__ import annotations

import pyarrow as pa

from endmark.pipeline import Stream
from endmark.verify import debezium, xml
from endmark.verify.session import Session, name, text

_READERS = {"debezium": debezium.flat, "xml": xml.flat}
_SCHEMA = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("value", pa.binary())])

_AS_IT_IS = """
CREATE VIEW $spoken AS SELECT "partition", "offset", value FROM records WHERE topic = $topic
"""

# A tombstone stands behind a deletion, for Kafka's compaction alone.
_SKIPPED = """
CREATE TABLE $skipped AS
SELECT "partition", "offset" FROM records WHERE topic = ? AND ? = 'debezium' AND value IS NULL
"""

_OTHERS = """
SELECT "partition", "offset", value FROM records ANTI JOIN $skipped USING ("partition", "offset")
WHERE topic = ?
"""


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
    session.run(_SKIPPED, [declared.topic, declared.format], skipped=skipped)
    if declared.format == "json":
        session.run(_AS_IT_IS, spoken=spoken, topic=text(declared.topic))
        return
    read = _READERS[declared.format]
    records = session.run(_OTHERS, [declared.topic], skipped=skipped)
    for record in records:
        record["value"] = read(record["value"] or b"", declared)
    session.run_on(
        pa.Table.from_pylist(records, _SCHEMA), "CREATE TABLE $spoken AS FROM arriving", spoken=spoken
    )
