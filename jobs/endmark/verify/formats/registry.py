"""The wire formats as `verify` reads them: how a record becomes flat JSON, and why one is a dead letter.

`verify` has a table of formats of its own, since it shares no code with the engine's parsers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from endmark.pipeline import Pipeline, Stream
from endmark.pipeline.registry import schemas_of
from endmark.verify.formats import avro, debezium, debezium_avro, framed, protobuf, reasons, xml
from endmark.verify.formats.beside_value import beside_value
from endmark.verify.formats.members import by_columns
from endmark.verify.formats.patterns import MARK
from endmark.verify.read.added_columns import NOTHING_ADDED, AddedColumns
from endmark.verify.session import Session, name, text


@dataclass(frozen=True)
class Format:
    """A wire format, read one record at a time.

    Args:
        reason: returns the reason why a record is a dead letter, for one that is.
        flat: returns a row as flat JSON by the names of its columns, a punctuation as JSON, and `None` for
            any other record. Members that are not declared may be left in it. `None` as `flat` means that the
            records are JSON already.
        heartbeats: whether a punctuation on the event time may be a heartbeat.
        skips: returns whether a record with a value has no effect. `None` means that each one has an effect.
        schemas: whether these functions take the schemas of the writers in front of the other arguments.
    """

    reason: Callable[..., str]
    flat: Callable[..., bytes | None] | None = None
    heartbeats: bool = True
    skips: Callable[..., bool] | None = None
    schemas: bool = False

    def given(self, schemas: framed.Schemas | None) -> Format:
        """Return the format as functions of a record and a stream alone, given the schemas of the writers."""
        if not self.schemas or self.flat is None:
            return self
        return replace(
            self,
            reason=partial(self.reason, schemas),
            flat=partial(self.flat, schemas),
            skips=None if self.skips is None else partial(self.skips, schemas),
            schemas=False,
        )


def _framed(read: framed.ReadRecord, *, skips: bool = False) -> Format:
    return Format(
        partial(framed.reason, read),
        partial(framed.flat, read),
        skips=partial(framed.is_skipped, read) if skips else None,
        schemas=True,
    )


FORMATS = {
    "json": Format(reasons.of_json),
    "xml": Format(reasons.of_xml, xml.flat),
    "debezium": Format(
        reasons.of_debezium,
        debezium.flat,
        heartbeats=False,
        skips=debezium.is_skipped,
    ),
    "avro": _framed(avro.read_record),
    "debezium_avro": _framed(debezium_avro.read_record, skips=True),
    "protobuf": _framed(protobuf.read_record),
}

_PLACE = pa.schema([("partition", pa.int32()), ("offset", pa.int64())])
_FLAT = _PLACE.append(pa.field("value", pa.binary()))
_UNFIT = _PLACE.append(pa.field("reason", pa.string()))
_MARKED = f'{{"{MARK}"'.encode()

_AS_IT_IS = """
CREATE VIEW $flat AS SELECT "partition", "offset", value FROM records
WHERE topic = $topic AND value IS NOT NULL
"""

_TOMBSTONES = """
CREATE TABLE $skipped AS SELECT "partition", "offset" FROM records WHERE topic = $topic AND value IS NULL
"""

# Of the escapes in JSON, only those of ASCII can spell a mark. DuckDB writes a backslash of a blob as \x5C.
_LACKING = "|".join([*debezium.LEFT_OUT, r"\\x5Cu00[3-7]"])
_MAY_LACK = r"""
SELECT 1 FROM records WHERE topic = ? AND regexp_matches(value::VARCHAR, ?) LIMIT 1
"""

_RECORDS = """
SELECT "partition", "offset", value, key, headers, "timestamp" FROM records
WHERE topic = ? AND value IS NOT NULL
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


def form_of(pipeline: Pipeline, stream: str) -> Format:
    """Return the format of a stream's records.

    Raises:
        ConfigError: a file that the pipeline names cannot be read.
    """
    return FORMATS[pipeline.streams[stream].format].given(schemas_of(pipeline, stream))


def flatten(session: Session, stream: str, form: Format, declared: Stream, added: AddedColumns) -> None:
    """Make `flat_<stream>`, `skipped_<stream>` and `unfit_<stream>` from `records`.

    `flat_<stream>` has partition, offset, and the row or punctuation of a record as flat JSON, or NULL for
    any other record. Under `extra: ignore`, rows lack the members that do not count. `skipped_<stream>` has
    the places of records without effect, which `flat_<stream>` leaves out. `unfit_<stream>` has the places of
    rows whose key, header or timestamp does not fit, with the reason. They have any value there in
    `flat_<stream>`. It also has the rows that lack a value because a connector did not get it.

    Args:
        session: the session.
        stream: the name of the stream.
        form: the format of its records.
        declared: the stream as `as_named` returns it.
        added: the columns that are younger than the checkpoint of the tables.
    """
    flat, skipped, unfit = (name(f"{table}_{stream}") for table in ("flat", "skipped", "unfit"))
    session.run(_TOMBSTONES, skipped=skipped, topic=text(declared.topic))
    plain = form.flat is None and declared.extra != "ignore" and not declared.taken_from
    if plain and not session.run(_MAY_LACK, [declared.topic, _LACKING]):
        session.run(_AS_IT_IS, flat=flat, topic=text(declared.topic))
        session.run_on(pa.Table.from_pylist([], _UNFIT), "CREATE TABLE $unfit AS FROM arriving", unfit=unfit)
        return
    records, skips = session.run(_RECORDS, [declared.topic]), form.skips or _skips_none
    places = [record for record in records if skips(record["value"], declared)]
    session.run_on(
        pa.Table.from_pylist(places, _PLACE), "INSERT INTO $skipped FROM arriving", skipped=skipped
    )
    records = [record for record in records if not skips(record["value"], declared)]
    bad = []
    for record in records:
        then = added.declared_at(declared, stream, record["partition"], record["offset"])
        found = _flat(record["value"], form, then)
        if isinstance(found, dict):
            others, beside = beside_value(record, then)
            reason = debezium.unfit(found, then) or beside
            found = json.dumps(found | others, ensure_ascii=False).encode()
            bad += [{**record, "reason": reason}] if reason is not None else []
        record["value"] = found
    session.run_on(pa.Table.from_pylist(records, _FLAT), "CREATE TABLE $flat AS FROM arriving", flat=flat)
    session.run_on(pa.Table.from_pylist(bad, _UNFIT), "CREATE TABLE $unfit AS FROM arriving", unfit=unfit)


def _flat(value: bytes, form: Format, then: Stream) -> dict[str, Any] | bytes | None:
    """Return a punctuation as flat JSON, or the columns of a row that are in its value, or else `None`."""
    rows = _of_value(then)
    found = value if form.flat is None else form.flat(value, rows)
    if found is None and form.flat is not None and len(rows.columns) < len(then.columns):
        # Punctuations may name columns that are beside the value.
        other = form.flat(value, then)
        found = other if other is not None and other.startswith(_MARKED) else None
    if form.flat is not None:
        rows = rows.model_copy(update={"taken_from": {}})  # its members have the names of columns
    return None if found is None else by_columns(found, rows)


def _of_value(declared: Stream) -> Stream:
    """Return a stream with the columns alone that are in its records' values."""
    columns = {column: declared.columns[column] for column in declared.value_paths}
    return declared.model_copy(update={"columns": columns})


def _skips_none(_: bytes, __: Stream) -> bool:
    return False


def as_named(pipeline: Pipeline, stream: str) -> Stream:
    """Return a stream whose `punctuated_on` has the columns that punctuations or deletions name."""
    declared = pipeline.streams[stream]
    named = declared.punctuated_on or pipeline.deleted_on(stream)
    return declared.model_copy(update={"punctuated_on": named})


def name_reasons(session: Session, pipeline: Pipeline, added: AddedColumns = NOTHING_ADDED) -> None:
    """Fill in the reasons that `classify` and `classify_control` left out of `expected_dead_letters`."""
    _name(session, pipeline.control_topic, lambda value, _, __: reason_of(value, None))
    for stream, declared in pipeline.streams.items():
        _name(
            session, declared.topic, partial(_reason_at, pipeline, stream, form_of(pipeline, stream), added)
        )


def _reason_at(
    pipeline: Pipeline,
    stream: str,
    form: Format,
    added: AddedColumns,
    value: bytes | None,
    partition: int,
    offset: int,
) -> str:
    """Return the reason of a stream's dead letter."""
    then = added.declared_at(as_named(pipeline, stream), stream, partition, offset)
    return reason_of(value, _of_value(then), form)


def _name(session: Session, topic: str, reason: Callable[[bytes | None, int, int], str]) -> None:
    """Fill in the reasons of a topic's dead letters, each by its value, partition and offset."""
    found = session.run(_UNNAMED, [topic])
    for letter in found:
        letter["reason"] = reason(letter.pop("value"), letter["partition"], letter["offset"])
    session.run_on(pa.Table.from_pylist(found, _NAMED), _NAME)


def reason_of(value: bytes | None, declared: Stream | None, form: Format | None = None) -> str:
    """Return the reason why a record is a dead letter.

    Args:
        value: the bytes of the record; `None` for a record without a value.
        declared: the stream in the pipeline file; `None` for the control topic.
        form: the format of the stream; `None` is for one whose format needs no schemas.
    """
    try:
        if declared is None:
            return reasons.of_control(value or b"")
        return (form or FORMATS[declared.format]).reason(value or b"", declared)
    except reasons.UnreadableError as why:
        return str(why)
