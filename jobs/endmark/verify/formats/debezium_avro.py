"""Reads Debezium's envelopes in Avro strictly and one at a time.

The bytes of an envelope are read to their end first. Then its `op` says which row image counts.
"""

from __future__ import annotations

import json
from typing import Any

from endmark.pipeline import Stream
from endmark.types import ColumnType
from endmark.verify.formats.avro import PUNCTUATION, opened, read_column, read_punctuation, read_row
from endmark.verify.formats.avro_reader import MalformedError, Reader
from endmark.verify.formats.avro_schema import Type
from endmark.verify.formats.framed import Schemas
from endmark.verify.formats.members import Pairs, read
from endmark.verify.formats.patterns import MARK
from endmark.verify.formats.reasons import UnreadableError


def read_record(schemas: Schemas, value: bytes, declared: Stream) -> dict[str, Any] | bytes | None:
    """Return a row as its members, a deletion as a punctuation, or another punctuation as JSON.

    `None` is a deletion that names no column. A punctuation that comes as its own record deletes no row. So
    its patterns are lists, which name no key that a deletion could have named.

    Args:
        schemas: the schemas of the writers.
        value: the bytes of the record.
        declared: the stream, whose `punctuated_on` has the columns that a deletion names.

    Raises:
        UnreadableError: the record is none of these. The text is the reason.
    """
    reader, written = opened(schemas, value)
    try:
        if written.name == PUNCTUATION:
            return _listed(read_punctuation(reader, written))
        if not any(name == "op" and _is_text(kind) for name, _, kind in written.fields):
            raise UnreadableError("bad_envelope")
        at: dict[str, tuple[Reader, Type]] = {}
        for name, _, kind in written.fields:
            at[name] = reader.copy(), kind
            reader.value(kind)
        if not reader.ended:
            raise MalformedError
    except MalformedError:
        raise UnreadableError("malformed") from None
    match _text(*at["op"]):
        case "u" if declared.updates != "rows":
            raise UnreadableError("update")
        case "c" | "r" | "u":
            return read_row(*_image(at, "after"), declared, ends=False)
        case "d":
            return _deletion(at, declared) if declared.punctuated_on else None
    raise UnreadableError("bad_envelope")


def _deletion(at: dict[str, tuple[Reader, Type]], declared: Stream) -> dict[str, Any]:
    reader, image = _image(at, "before")
    found, problems = {}, []
    for column in declared.punctuated_on:
        path, kind = declared.value_paths[column], declared.columns[column].required
        try:
            found[column] = {"equals": read_column(reader.copy(), image, path, kind)}
        except UnreadableError as why:
            problems.append(str(why))
    if any(why != "not_utf8" for why in problems):
        raise UnreadableError("bad_punctuation")
    if problems:
        raise UnreadableError("not_utf8")
    return {MARK: found}


def _image(at: dict[str, tuple[Reader, Type]], member: str) -> tuple[Reader, Type]:
    """Return a reader at a row image, and its type."""
    if member not in at:
        raise UnreadableError("bad_envelope")
    reader, kind = at[member]
    branches = kind.inner if kind.kind == "union" else [kind]
    if [each.kind for each in branches].count("record") != 1:
        raise UnreadableError("bad_envelope")
    if kind.kind == "union":
        kind = branches[reader.index(branches)]
    if kind.kind != "record":
        raise UnreadableError("bad_envelope")
    return reader, kind


def _is_text(kind: Type) -> bool:
    if kind.kind == "union":
        return all(map(_is_text, kind.inner))
    return kind.kind in ("null", "string", "enum") or (kind.kind == "bytes" and kind.logical != "decimal")


def _text(reader: Reader, kind: Type) -> Any:
    return read_column(reader, kind, (), ColumnType.STRING)


def _listed(punctuation: bytes) -> bytes:
    """Return a punctuation with a list of one value in the place of each value."""
    try:
        document = read(punctuation)
        patterns = document.one(MARK) if isinstance(document, Pairs) and len(document) == 1 else None
    except (ValueError, RecursionError):
        return punctuation
    if not isinstance(patterns, Pairs) or len(dict(patterns)) < len(patterns):
        return punctuation
    if not all(isinstance(each, Pairs) and [name for name, _ in each] == ["equals"] for _, each in patterns):
        return punctuation
    listed = {column: {"one_of": [each.one("equals")]} for column, each in patterns}
    return json.dumps({MARK: listed}, ensure_ascii=False).encode()
