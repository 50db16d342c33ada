"""The registry of wire formats. A format says how the bytes of a stream's records are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from endmark.pipeline.sources import Stream
    from endmark.wire.change import ChangeRules
    from endmark.wire.framed_records import WriterSchemas
    from endmark.wire.json.records import Parser
    from endmark.wire.record_spec import RecordSpec


@dataclass(frozen=True)
class Format:
    """A wire format. To add one, write its parser, an entry of `FORMATS`, and one of `verify`'s own table.

    Args:
        doc: one sentence that describes a record, for the schema of pipeline files.
        parser: makes the parser of a stream, given the stream, its name, the columns of the join key, the
            columns that a deletion names, and the schemas of its writers, if the format has any.
        own_fields: the fields of a stream that only some formats read, each with the reason why other
            formats refuse it.
        heartbeats: whether a punctuation may be a heartbeat, on the column of event time.
        deletions: whether a record may be the deletion of a row.
        members: whether columns may be members of objects in a value, or members of other names.
        refuse_unreadable: raises a `ValueError` for a stream whose members are too many or too deep in
            objects to be read; `None` if any can be.
        schemas: the name that a registry has for the type of the schemas by which records are written;
            `None` if there are none.
    """

    doc: str
    parser: Callable[[Stream, str, Sequence[str], Sequence[str], WriterSchemas | None], Parser]
    own_fields: Mapping[str, str] = field(default_factory=dict)
    heartbeats: bool = True
    deletions: bool = False
    members: bool = False
    refuse_unreadable: Callable[[Stream], None] | None = None
    schemas: str | None = None


# All of `wire` is imported when a parser is made, since a pipeline file is checked without Arrow.
def _records(stream: Stream, name: str, key: Sequence[str]) -> RecordSpec:
    from endmark.wire.record_spec import RecordSpec

    return RecordSpec(
        stream.columns,
        stream.punctuated_on,
        name,
        key,
        stream.heartbeat_on,
        stream.extra == "ignore",
        stream.value_paths,
    )


def _changes(stream: Stream, deleted_on: Sequence[str]) -> ChangeRules:
    from endmark.wire.change import ChangeRules

    return ChangeRules(stream.updates == "rows", tuple(deleted_on))


def _json(stream: Stream, name: str, key: Sequence[str], *_: object) -> Parser:
    from endmark.wire.json.records import JsonParser

    return JsonParser(_records(stream, name, key))


def _xml(stream: Stream, name: str, key: Sequence[str], *_: object) -> Parser:
    from endmark.wire.xml_records import XmlParser

    return XmlParser(_records(stream, name, key), most=stream.max_record)


def _debezium(stream: Stream, name: str, key: Sequence[str], deleted_on: Sequence[str], _: object) -> Parser:
    from endmark.wire.json.debezium import DebeziumParser

    return DebeziumParser(_records(stream, name, key), _changes(stream, deleted_on))


def _debezium_avro(
    stream: Stream, name: str, key: Sequence[str], deleted_on: Sequence[str], schemas: WriterSchemas | None
) -> Parser:
    from endmark.wire.avro.changes import DebeziumAvroParser

    rules = _changes(stream, deleted_on)
    return DebeziumAvroParser(_records(stream, name, key), _required(schemas), rules)


def _avro(stream: Stream, name: str, key: Sequence[str], _: object, schemas: WriterSchemas | None) -> Parser:
    from endmark.wire.avro.records import AvroParser

    return AvroParser(_records(stream, name, key), _required(schemas))


def _protobuf(
    stream: Stream, name: str, key: Sequence[str], _: object, schemas: WriterSchemas | None
) -> Parser:
    from endmark.wire.protobuf.records import ProtoParser

    return ProtoParser(_records(stream, name, key), _required(schemas))


def _required(schemas: WriterSchemas | None) -> WriterSchemas:
    if schemas is None:
        raise ValueError("the stream has no schemas of its writers, which its format needs")
    return schemas


def _refuse_large(stream: Stream) -> None:
    """Refuse members that one regular expression cannot match."""
    from endmark.wire.json.shape import shape_of
    from endmark.wire.json.spelling import MOST_LEVELS, TooLargeError, require_size

    paths = stream.value_paths
    deepest = max(paths, key=lambda name: len(paths[name]))
    inside = len(paths[deepest]) - 1
    if inside >= MOST_LEVELS:
        raise ValueError(
            f"taken_from.{deepest}: the member is within {inside} objects, and one within more than "
            f"{MOST_LEVELS - 1} cannot be read; leave the column out, under `extra: ignore`"
        )
    try:
        require_size(stream.columns, shape_of(paths), ignoring=stream.extra == "ignore")
    except TooLargeError:
        raise ValueError(
            f"columns: {len(paths)} members of a value, of which {deepest!r} is within {inside} objects, "
            "are too many to be read; leave some out, at best all of an object, under `extra: ignore`"
        ) from None


_UPDATES = {"updates": "only streams of Debezium's formats have updates"}
_SCHEMA_FILE = {"schema_file": "only records of Avro and Protobuf have a schema"}

FORMATS = {
    "json": Format("A record is a JSON object.", _json, members=True, refuse_unreadable=_refuse_large),
    "xml": Format(
        "A record is a flat XML document.",
        _xml,
        {
            "max_record": "only records of `format: xml` are bounded here, others by the broker's "
            "`message.max.bytes`"
        },
    ),
    "debezium": Format(
        "A record is Debezium's JSON envelope of a change.",
        _debezium,
        _UPDATES,
        heartbeats=False,
        deletions=True,
        members=True,
        refuse_unreadable=_refuse_large,
    ),
    "avro": Format(
        "A record is Avro, behind a zero byte and the id of its schema in the `registry`, or by the schema "
        "in `schema_file`.",
        _avro,
        _SCHEMA_FILE,
        members=True,
        schemas="AVRO",
    ),
    "debezium_avro": Format(
        "A record is Debezium's envelope of a change in Avro, by a schema as in `avro`.",
        _debezium_avro,
        _UPDATES | _SCHEMA_FILE,
        deletions=True,
        members=True,
        schemas="AVRO",
    ),
    "protobuf": Format(
        "A record is a message of Protobuf, behind a zero byte, the id of its schema in the `registry` and "
        "the indexes of the message, or the first message of the `.proto` file in `schema_file`.",
        _protobuf,
        _SCHEMA_FILE,
        members=True,
        schemas="PROTOBUF",
    ),
}
