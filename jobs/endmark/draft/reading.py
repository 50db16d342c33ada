"""Reads a sample: its wire format, the values of its rows, and the columns that its punctuations restrict."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from endmark.domain import PunctuationError
from endmark.draft.members import leaves, names_of, outers
from endmark.errors import ConfigError
from endmark.pipeline.formats import FORMATS
from endmark.pipeline.record_parts import Origin, RecordPart
from endmark.punctuation.flat_xml import read_flat
from endmark.punctuation.json_shape import MEMBER
from endmark.wire.rejection import read_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from endmark.draft.members import Path
    from endmark.draft.samples import Record, Sample

Found = list[tuple["Record", dict["Path", "Spelled | None"]]]
"""The rows of a sample with their values by path."""

_BLANKS = " \t\r\n"


@dataclass(frozen=True)
class Spelled:
    """A value of a row as JSON spells it.

    Args:
        quoted: the spelling if the column's values stand in quotes.
        plain: the spelling otherwise. It differs in XML alone, where a text has no quotes.
    """

    quoted: str
    plain: str


_OBJECT = Spelled("{}", "{}")


@dataclass(frozen=True)
class Row:
    """A row and its record: the values by the names of columns. A null is `None`."""

    record: Record
    values: Mapping[str, Spelled | None]


@dataclass(frozen=True)
class Promise:
    """A punctuation.

    Args:
        columns: the columns that it restricts.
        up_to: whether each of them has any value up to a bound, as in a heartbeat.
    """

    columns: tuple[str, ...]
    up_to: bool


@dataclass
class Reading:
    """The content of a sample.

    Args:
        format: the wire format of most records.
        rows: the rows.
        taken_from: the part of the record of each column that is no member of its own name.
        promises: the punctuations; for Debezium, the deletions.
        primary: the primary key of the table that Debezium captures; empty if no record tells it.
        updates: the number of updates that Debezium captured.
        others: the number of records that are nothing of this format.
    """

    format: str
    rows: list[Row] = field(default_factory=list)
    taken_from: dict[str, str] = field(default_factory=dict)
    promises: list[Promise] = field(default_factory=list)
    primary: tuple[str, ...] = ()
    updates: int = 0
    others: int = 0


def read(sample: Sample) -> Reading:
    """Read a sample.

    Raises:
        ConfigError: it has no row in any format.
    """
    valued = [record for record in sample.records if record.value is not None]
    kinds = Counter(_format(record.value or b"") for record in valued)
    kinds.pop("", None)
    framed = sum(map(_is_framed, valued))
    if framed > kinds.total():
        raise ConfigError(
            f"topic {sample.topic}: {framed} of {len(valued)} records are framed as Avro and Protobuf with a "
            "registry of schemas, of which nothing is drafted; write the stream as docs/avro.md or "
            "docs/protobuf.md has it"
        )
    if not kinds:
        raise ConfigError(
            f"topic {sample.topic}: none of {len(valued)} records is a JSON object or a flat XML document; "
            "send some rows first, or give --sample"
        )
    found = Reading(kinds.most_common(1)[0][0])
    take = {"json": _take_json, "xml": _take_xml, "debezium": _take_envelope}[found.format]
    rows: Found = []
    for record in valued:
        if not take(found, rows, record, record.value or b""):
            found.others += 1
    if not rows:
        raise ConfigError(
            f"topic {sample.topic}: none of {len(valued)} records is a row; send some rows first, or give "
            "--sample"
        )
    names = names_of([values for _, values in rows], by_path=FORMATS[found.format].members)
    found.taken_from = {
        name: str(RecordPart(Origin.VALUE, path)) for path, name in names.items() if path != (name,)
    }
    found.rows = [Row(record, _named_values(values, names)) for record, values in rows]
    return found


def _named_values(
    values: Mapping[Path, Spelled | None], names: Mapping[Path, str]
) -> dict[str, Spelled | None]:
    """Return the values of a row by the names of columns. An object in place of a value fits no type."""
    found = {names[path]: value for path, value in values.items() if path in names}
    odd = (outer for path in values for outer in outers(path) if outer in names)
    return found | {names[path]: _OBJECT for path in odd}


def _is_framed(record: Record) -> bool:
    """Return whether a value begins with a zero byte and the id of a schema, as no text does."""
    value = record.value or b""
    return len(value) > 4 and value.startswith(b"\0")


def _format(value: bytes) -> str:
    document = read_object(value)
    if isinstance(document, dict):
        return "json" if _envelope(document) is None else "debezium"
    return "" if _elements(value) is None else "xml"


def _take_json(found: Reading, rows: Found, record: Record, value: bytes) -> bool:
    document = read_object(value)
    if not isinstance(document, dict):
        return False
    if next(iter(document), None) != MEMBER:
        rows.append((record, dict(_spelled(document))))
        return True
    patterns = document[MEMBER]
    if not isinstance(patterns, dict) or not all(isinstance(each, dict) for each in patterns.values()):
        return False
    restricted = {name: pattern for name, pattern in patterns.items() if "anything" not in pattern}
    found.promises.append(Promise(tuple(restricted), all(map(_has_no_low_end, restricted.values()))))
    return True


def _has_no_low_end(pattern: Mapping[str, Any]) -> bool:
    bounds = pattern.get("between")
    return isinstance(bounds, dict) and "to" in bounds and "from" not in bounds


def _take_xml(found: Reading, rows: Found, record: Record, value: bytes) -> bool:
    if (read := _elements(value)) is None:
        return False
    root, texts = read
    if ":" in root:
        restricted = {name: text for name, text in texts.items() if text != "*"}
        up_to = all(
            text.startswith("[") and text[1:].lstrip().startswith(",") for text in restricted.values()
        )
        found.promises.append(Promise(tuple(restricted), up_to))
        return True
    values: dict[Path, Spelled | None] = {
        (name,): Spelled(json.dumps(text), text) if text else None for name, text in texts.items()
    }
    rows.append((record, values))
    return True


def _take_envelope(found: Reading, rows: Found, record: Record, value: bytes) -> bool:
    document = read_object(value)
    envelope = _envelope(document) if isinstance(document, dict) else None
    if envelope is None:
        return False
    found.primary = found.primary or _primary(record.key)
    image = envelope.get("before" if envelope["op"] == "d" else "after")
    if not isinstance(image, dict):
        return False
    if envelope["op"] == "d":
        found.primary = found.primary or _named(image)
        found.promises.append(Promise(found.primary, up_to=False))
        return True
    found.updates += envelope["op"] == "u"
    rows.append((record, dict(_spelled(image))))
    return True


def _envelope(document: dict[str, Any]) -> dict[str, Any] | None:
    """Return Debezium's envelope in a JSON object; `None` if it is none."""
    inner = document.get("payload", document)
    if not isinstance(inner, dict) or inner.get("op") not in ("c", "r", "u", "d"):
        return None
    return inner if "after" in inner or "before" in inner else None


def _primary(key: bytes | None) -> tuple[str, ...]:
    """Return the primary key's columns, which Debezium writes into the key of a record."""
    document = read_object(key or b"")
    if not isinstance(document, dict):
        return ()
    inner = document.get("payload", document)
    return tuple(inner) if isinstance(inner, dict) else ()


def _named(before: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns that a deletion has values of if it lacks some: they are the primary key."""
    named = tuple(name for name, value in before.items() if value is not None)
    return named if len(named) < len(before) else ()


def _elements(value: bytes) -> tuple[str, dict[str, str]] | None:
    try:
        root, texts = read_flat(value)
    except PunctuationError:
        return None
    return root, {name: text.strip(_BLANKS) for name, text in texts.items()}


def _spelled(document: Mapping[str, Any]) -> Iterator[tuple[Path, Spelled | None]]:
    for path, value in leaves(document):
        text = json.dumps(value, ensure_ascii=False)
        yield path, None if value is None else Spelled(text, text)
