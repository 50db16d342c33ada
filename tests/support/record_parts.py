"""Streams whose columns come from any part of a Kafka record, and records that have them there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from endmark.pipeline import Pipeline, Stream
from endmark.pipeline.formats import FORMATS
from endmark.pipeline.record_parts import Origin
from endmark.types import ColumnType
from support.verify_world import Record

_NESTED = ["value.in.{}", "value.in.deep.{}", "value.of-{}"]
_BESIDE = ["header.{}", "header.x.{}"]


@st.composite
def with_parts(draw: st.DrawFn, pipeline: Pipeline) -> Pipeline:
    """The pipeline with any columns from other parts of their records, or none."""
    document = pipeline.model_dump(by_alias=True)
    for name, stream in pipeline.streams.items():
        document["streams"][name]["taken_from"] = draw(_parts(stream, pipeline.deleted_on(name)))
    return Pipeline.model_validate(document)


@st.composite
def _parts(draw: st.DrawFn, stream: Stream, deleted_on: tuple[str, ...]) -> dict[str, str]:
    nested = _NESTED if FORMATS[stream.format].members else []
    # A key is one text, or JSON with any number of columns.
    keys = draw(st.sampled_from([[], ["key"], ["key.{}", "key.k.{}"]]))
    time, found = stream.event_time.column, dict[str, str]()
    left = len(stream.columns)
    for column, kind in stream.columns.items():
        times = ["timestamp"] if column == time and kind == ColumnType.TIMESTAMP else []
        beside = [] if left == 1 or column in deleted_on else [*_BESIDE, *keys, *times]
        part = draw(st.sampled_from([None, None, None, *nested, *beside]))
        if part is not None:
            found[column] = part.format(column)
            left -= part in beside
            keys = [] if part == "key" else keys
    return found


def in_parts(record: Record, row: Mapping[str, Any], stream: Stream, place: int) -> tuple[Record, Any]:
    """Return a record with a row's key, headers and timestamp, and the members of its value.

    Some parts are unfit, by the place of the record, which is any number.
    """
    value: dict[str, Any] = {name: cell for name, cell in row.items() if name not in stream.columns}
    key: dict[str, Any] = {"other": [place, {"other": None}]} if place % 2 else {}
    headers: list[tuple[str, bytes | None]] = [("header", b"old"), ("trace", None)]
    whole: bytes | None = None
    for name, part in stream.parts.items():
        if name not in row:
            continue
        match part.origin:
            case Origin.VALUE:
                _put(value, part.path, row[name])
            case Origin.KEY if part.path:
                _put(key, part.path, row[name])
            case Origin.KEY:
                whole = _text(row[name])
            case Origin.HEADER:
                headers += [(part.path[0], b"\xff old"), (part.path[0], _text(row[name]))]
    members = any(part.origin is Origin.KEY and part.path for part in stream.parts.values())
    return _sent(record, json.dumps(key).encode() if members else whole, headers, stream, place), _unfit(
        value, stream, place
    )


def _sent(
    record: Record,
    key: bytes | None,
    headers: list[tuple[str, bytes | None]],
    stream: Stream,
    place: int,
) -> Record:
    """The record with what its stream takes beside the value, of which a little is unfit."""
    origins = {part.origin for part in stream.parts.values()}
    if Origin.KEY in origins:
        unfit = {5: None, 9: b"\xff\x00", 11: b'{"k": 5}', 16: b"[]"}
        record = replace(record, key=unfit.get(place % 29, key))
    if Origin.HEADER in origins:
        lost = headers[: len(headers) - (place % 31 == 3)]
        last = [(headers[-1][0], b"no\xff")] if place % 37 == 2 else []
        record = replace(record, headers=(*lost, *last))
    if Origin.TIMESTAMP in origins and place % 23 == 9:
        record = replace(record, timestamp=-1)
    return record


def _unfit(value: dict[str, Any], stream: Stream, place: int) -> dict[str, Any]:
    """The members of a value, whose inner object is rarely none, or has members that nobody declared."""
    if isinstance(value.get("in"), dict):
        if stream.extra == "ignore" and place % 3 == 0:
            value["in"] |= {"more": {"in": [1, None]}, "Deep": "}"}
        wrong: dict[int, Any] = {7: None, 19: 5, 23: {**value["in"], "strange": 1}}
        value["in"] = wrong.get(place % 41, value["in"])
    return value


def _put(members: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    *outer, last = path
    for name in outer:
        members = members.setdefault(name, {})
    members[last] = value


def _text(value: Any) -> bytes | None:
    """A value as the text of a key or a header."""
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()
