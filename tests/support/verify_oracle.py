"""What becomes of records, by definition: nested loops over Python values, nothing clever."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from endmark.pipeline import Pipeline, Stream
from endmark.types import ColumnType
from support.verify_world import PARTITIONS, Record, Row, locate

INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z", re.ASCII)
Sellers = Mapping[int, tuple[str | None, float | None]]


class Members(list[tuple[str, Any]]):
    """A JSON object as its members in order, doubled ones included."""


@dataclass(frozen=True)
class Line:
    """A row, or a punctuation of a key, with its place."""

    partition: int
    offset: int
    columns: dict[str, Any] | None
    closes: int | None


@dataclass
class Expected:
    """The rows of the four tables, in column order; free texts are made up."""

    results: list[Row] = field(default_factory=list)
    groups: list[Row] = field(default_factory=list)
    dead_letters: list[Row] = field(default_factory=list)
    violations: list[Row] = field(default_factory=list)


def fate(stream: Stream, value: bytes | None) -> dict[str, Any] | int | Literal["dead letter"]:
    """The columns of a row, the key that a punctuation closes, or that it is a dead letter."""
    try:
        document = json.loads(
            (value or b"").decode("utf-8"), object_pairs_hook=Members, parse_constant=_refuse
        )
    except (ValueError, RecursionError):
        return "dead letter"
    if not isinstance(document, Members):
        return "dead letter"
    match document:
        case [("$punctuation", Members() as pattern)]:
            match pattern:
                case [(on, Members() as bound)] if on == stream.punctuated_on:
                    match bound:
                        case [("equals", key)] if _is_long(key):
                            return int(key)
            return "dead letter"
    if sorted(name for name, _ in document) != sorted(stream.columns):
        return "dead letter"
    columns = {name: _read(stream.columns[name], cell) for name, cell in document}
    return "dead letter" if None in columns.values() else columns


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _is_long(cell: Any) -> bool:
    return type(cell) is int and -(2**63) <= cell < 2**63


def _read(kind: ColumnType, cell: Any) -> Any:
    match kind:
        case ColumnType.LONG:
            return cell if _is_long(cell) else None
        case ColumnType.DOUBLE:
            return _finite(cell) if type(cell) in (int, float) else None
        case ColumnType.BOOLEAN:
            return cell if type(cell) is bool else None
        case ColumnType.STRING:
            return cell if type(cell) is str and cell == cell.encode("utf-8", "ignore").decode() else None
        case ColumnType.TIMESTAMP:
            return _instant(cell) if type(cell) is str else None


def _instant(cell: str) -> datetime | None:
    try:
        return datetime.fromisoformat(cell) if INSTANT.fullmatch(cell) else None
    except ValueError:
        return None


def _finite(number: float) -> float | None:
    try:
        return float(number) if math.isfinite(float(number)) else None
    except OverflowError:
        return None


def recompute(pipeline: Pipeline, records: Iterable[Record], sellers: Sellers) -> Expected:
    expected = Expected()
    located = locate(records)
    lines = {name: _read_lines(pipeline.streams[name], located, expected) for name in pipeline.sides}
    processed = {name: _judge(pipeline.streams[name], lines[name], expected) for name in pipeline.sides}
    live = {name: _look_up(pipeline, name, processed[name], sellers) for name in pipeline.sides}
    pairs = _join(pipeline, live)
    for left, right in pairs:
        expected.results.append((*_side(pipeline, left, sellers, 0), *_side(pipeline, right, sellers, 1)))
    final = _final(pipeline, lines, live)
    for key in sorted({left.columns["item_id"] for left, _ in pairs if left.columns} & final):
        expected.groups.append(_group(pipeline, key, expected.results))
    return expected


def _read_lines(
    stream: Stream, located: list[tuple[str, int, int, bytes | None]], expected: Expected
) -> list[Line]:
    lines = []
    for topic, partition, offset, value in located:
        if topic != stream.topic:
            continue
        found = fate(stream, value)
        if found == "dead letter":
            expected.dead_letters.append((topic, partition, offset, "unreadable", "made up", value))
        elif isinstance(found, int):
            lines.append(Line(partition, offset, None, found))
        elif isinstance(found, dict):
            lines.append(Line(partition, offset, found, None))
    return lines


def _judge(stream: Stream, lines: list[Line], expected: Expected) -> list[Line]:
    processed = []
    time = stream.event_time.column
    for line in lines:
        if line.columns is None:
            continue
        before = [
            other for other in lines if other.partition == line.partition and other.offset < line.offset
        ]
        times = [other.columns[time] for other in before if other.columns is not None]
        if any(other.closes == line.columns["item_id"] for other in before if other.closes is not None):
            reason = "closed"
        elif any(other - line.columns[time] > stream.event_time.lateness for other in times):
            reason = "late"
        else:
            processed.append(line)
            continue
        place = (stream.topic, line.partition, line.offset)
        expected.violations.append((*place, reason, line.columns[time], "{}"))
    return processed


def _look_up(pipeline: Pipeline, stream: str, lines: list[Line], sellers: Sellers) -> list[Line]:
    if stream != pipeline.lookup.stream:
        return lines
    return [line for line in lines if line.columns is not None and line.columns["seller_id"] in sellers]


def _time(pipeline: Pipeline, side: int, line: Line) -> datetime:
    assert line.columns is not None
    moment: datetime = line.columns[pipeline.streams[pipeline.sides[side]].event_time.column]
    return moment


def _join(pipeline: Pipeline, live: dict[str, list[Line]]) -> list[tuple[Line, Line]]:
    pairs = []
    left_name, right_name = pipeline.sides
    for left in live[left_name]:
        for right in live[right_name]:
            assert left.columns is not None
            assert right.columns is not None
            if left.columns["item_id"] != right.columns["item_id"]:
                continue
            ahead = _time(pipeline, 1, right) - _time(pipeline, 0, left)
            window = pipeline.join.window.left if ahead >= timedelta(0) else pipeline.join.window.right
            if window is None or abs(ahead) <= window:
                pairs.append((left, right))
    return pairs


def _side(pipeline: Pipeline, line: Line, sellers: Sellers, side: int) -> Row:
    stream = pipeline.sides[side]
    assert line.columns is not None
    own = tuple(line.columns[name] for name in pipeline.streams[stream].columns)
    found = sellers[line.columns["seller_id"]] if stream == pipeline.lookup.stream else ()
    return (*own, *found, line.partition, line.offset)


def _final(pipeline: Pipeline, lines: dict[str, list[Line]], live: dict[str, list[Line]]) -> set[int]:
    final = set()
    windows = (pipeline.join.window.left, pipeline.join.window.right)
    for side, stream in enumerate(pipeline.sides):
        other = pipeline.sides[1 - side]
        closed_by_other = {line.closes for line in lines[other]}
        progress = _progress(pipeline, 1 - side, lines[other])
        for key in {line.closes for line in lines[stream] if line.closes is not None}:
            times = [
                _time(pipeline, side, line)
                for line in live[stream]
                if line.columns is not None and line.columns["item_id"] == key
            ]
            window = windows[side]
            left_behind = (
                progress is not None
                and window is not None
                and max(times, default=progress) + window < progress
            )
            if not times or key in closed_by_other or left_behind:
                final.add(key)
    return final


def _progress(pipeline: Pipeline, side: int, lines: list[Line]) -> datetime | None:
    newest = []
    for partition in range(PARTITIONS):
        times = [
            _time(pipeline, side, line) for line in lines if line.partition == partition and line.columns
        ]
        if not times:
            return None
        newest.append(max(times))
    return min(newest) - pipeline.streams[pipeline.sides[side]].event_time.lateness


def _group(pipeline: Pipeline, key: int, results: list[Row]) -> Row:
    names = list(pipeline.result_columns())
    rows = [dict(zip(names, row, strict=True)) for row in results]
    rows = [row for row in rows if row["items_item_id"] == key]

    def highest(column: str) -> Any:
        return max((row[column] for row in rows if row[column] is not None), default=None)

    seller = f"{pipeline.lookup.stream}_seller_id"
    measures = (highest(column) for column in ("bids_price", "bids_bid_at", seller, "sellers_name"))
    return (key, len(rows), *measures)
