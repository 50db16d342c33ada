"""Finds the reason of each dead letter from its bytes, one at a time, as docs/wire-format.md defines it.

All records here are dead letters, as `classify` has found. The last possible reason therefore needs no check.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from endmark.domain import Domain
from endmark.pipeline import Stream
from endmark.types import ColumnType, Spelling
from endmark.verify.formats import xml
from endmark.verify.formats.members import DELETED, Pairs, integer, reached
from endmark.verify.formats.patterns import MARK

_MARKED = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"' + re.escape(MARK.encode()) + b'"')
_KINDS: dict[Domain, tuple[type, ...]] = {
    Domain.LONG: (int,),
    Domain.DOUBLE: (int, float),
    Domain.BOOLEAN: (bool,),
}
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class UnreadableError(Exception):
    """A record cannot be read further. The text is the reason."""


class _Pairs(Pairs):
    """The members of a JSON object in their order; a name may stand twice."""

    def member(self, wanted: str, kind: type = object) -> Any:
        """Return the value of a member.

        Raises:
            UnreadableError: the member stands twice, or its value is not of the Python type `kind`.
        """
        found = [value for member, value in self if member == wanted]
        if len(found) > 1:
            raise UnreadableError("duplicate_field")
        if not isinstance(value := found[0] if found else None, kind):
            raise UnreadableError("bad_envelope")
        return value


def of_control(value: bytes) -> str:
    """Return the reason of a record of the control topic."""
    _object(value)
    return "bad_control"


def of_json(value: bytes, declared: Stream) -> str:
    """Return the reason of a record of flat JSON."""
    if _MARKED.match(value):
        return "bad_punctuation"
    if declared.extra == "ignore" and value.strip():
        found = _read(value, _Pairs)
        if isinstance(found, _Pairs) and [member for member, _ in found[:1]] != [MARK]:
            return _of_row(found, declared)
    members = _object(value)
    # The expression does not match a name that is spelled with escapes.
    if next(iter(members), None) == MARK and _is_unicode(members):
        return "bad_punctuation"
    return _of_members(members, declared)


def _of_row(row: _Pairs, declared: Stream) -> str:
    """Return the reason of a JSON object whose members need not be declared."""
    if _is_twice(row, declared):
        return "duplicate_field"
    names = {path[0] for path in declared.value_paths.values()}
    if any(member in (MARK, DELETED) and member not in names for member, _ in row):
        return "unknown_field"
    return _of_members(_plain(row), declared)


def _is_twice(row: _Pairs, declared: Stream) -> bool:
    """Return whether a declared member stands twice in its object."""
    objects = _objects(declared)
    counting = [
        path for path, _ in reached(row, objects) if path in objects or path in declared.value_paths.values()
    ]
    return len(set(counting)) < len(counting)


def _objects(declared: Stream) -> set[tuple[str, ...]]:
    """Return the paths of the objects that have columns in them."""
    return {path[:depth] for path in declared.value_paths.values() for depth in range(1, len(path))}


def _of_members(members: Mapping[str, Any], declared: Stream) -> str:
    objects = _objects(declared)
    found = dict(reached(members, objects))
    strict = declared.extra != "ignore" or MARK in members
    if strict and not found.keys() <= {*declared.value_paths.values(), *objects}:
        return "unknown_field"
    for column, path in declared.value_paths.items():
        kind = declared.columns[column]
        outer = [found.get(path[:depth]) for depth in range(1, len(path))]
        if any(each is not None and not isinstance(each, dict) for each in outer):
            return "wrong_type"
        if kind.nullable and found.get(path) is None:
            continue
        if found.get(path) is None:
            return "missing_field"
        if type(found[path]) not in _KINDS.get(_written(kind), (str,)):
            return "wrong_type"
    return "bad_value"


def _written(kind: ColumnType) -> Domain:
    """Return the domain of the values that stand in records."""
    if kind.spelling is None:
        return kind.domain
    return Domain.DOUBLE if kind.spelling is Spelling.FLOAT else Domain.LONG


def of_xml(value: bytes, declared: Stream) -> str:
    """Return the reason of an XML record."""
    if len(value) > declared.max_record:
        return "too_large"
    if not value.strip():
        return "empty"
    if (found := xml.elements(value, declared)) is None:
        return "malformed"
    root, texts = found
    if ":" in root:
        return "bad_punctuation"
    members = {column: _bare(text, declared.columns.get(column)) for column, text in texts.items()}
    return _of_members(members, declared)


def _bare(text: str, kind: ColumnType | None) -> Any:
    """A text of XML as a JSON value of the right type; a text that does not fit its column stays text."""
    text = text.strip(" \t\r\n")
    if kind is not None and kind.nullable and not text:
        return None
    number = _NUMBER.fullmatch(text)
    match _written(kind) if kind is not None else None:
        case Domain.LONG if number and not (number[2] or number[3]):
            return integer(text)
        case Domain.DOUBLE if number:
            return float(text)
        case Domain.BOOLEAN if text in ("true", "false"):
            return True
    return text


def of_debezium(value: bytes, declared: Stream) -> str:
    """Return the reason of a Debezium envelope."""
    envelope = _envelope(value)
    match envelope.member("op", str):
        case "u" if declared.updates != "rows":
            return "update"
        case "c" | "r" | "u":
            after = envelope.member("after", _Pairs)
            twice = len(dict(after)) < len(after) and declared.extra != "ignore"
            if twice or _is_twice(after, declared):
                return "duplicate_field"
            return of_json(json.dumps(_plain(after), ensure_ascii=False).encode(), declared)
        case "d":
            before = envelope.member("before", _Pairs)
            for column in declared.punctuated_on:
                *outer, last = declared.value_paths[column]
                image = before
                for member in outer:
                    image = image.member(member, _Pairs)
                image.member(last)
            return "bad_punctuation"
    return "bad_envelope"


def _envelope(value: bytes) -> _Pairs:
    if not value.strip():
        raise UnreadableError("empty")
    document = _read(value, _Pairs)
    if not _is_unicode(document):
        raise UnreadableError("not_utf8")
    if not isinstance(document, _Pairs):
        raise UnreadableError("not_an_object")
    if any(member == "payload" for member, _ in document):
        found: _Pairs = document.member("payload", _Pairs)
        return found
    return document


def _object(value: bytes) -> dict[str, Any]:
    """The members of a JSON object. No name may stand twice, at any depth."""
    if not value.strip():
        raise UnreadableError("empty")
    found = _read(value, _once)
    if not isinstance(found, dict):
        raise UnreadableError("not_an_object")
    return found


def _read(value: bytes, pairs: Callable[[list[tuple[str, Any]]], Any]) -> Any:
    try:
        return json.loads(
            value.decode("utf-8"), object_pairs_hook=pairs, parse_constant=_refuse, parse_int=integer
        )
    except UnicodeDecodeError:
        raise UnreadableError("not_utf8") from None
    except (ValueError, RecursionError):
        raise UnreadableError("malformed") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise UnreadableError("duplicate_field")
    return dict(pairs)


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _is_unicode(document: Any) -> bool:
    """Return whether every text of a document is free of half surrogate pairs."""
    try:
        json.dumps(document, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _plain(document: Any) -> Any:
    """A document with dicts as its objects. If a member stands twice, the last one counts."""
    if isinstance(document, _Pairs):
        return {member: _plain(value) for member, value in document}
    return [_plain(value) for value in document] if isinstance(document, list) else document
