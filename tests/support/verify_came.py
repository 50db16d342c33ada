"""The fate of records before any join, by definition: nested loops over Python values, nothing clever."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from endmark.pipeline import Lookup, Pipeline, Stream
from support.verify_declared import (
    end_of_run,
    first_possible,
    is_behind,
    is_future,
    precedes,
    said_by_row,
)
from support.verify_fates import Key, Promise, fate
from support.verify_line import Line
from support.verify_others import OTHERS
from support.verify_world import Placed, Record, Row, locate

Sellers = Sequence[Row]


@dataclass
class Expected:
    """The rows of the five tables, in column order; free texts are made up."""

    results: list[Row] = field(default_factory=list)
    groups: list[Row] = field(default_factory=list)
    dead_letters: list[Row] = field(default_factory=list)
    violations: list[Row] = field(default_factory=list)
    punctuations: list[Row] = field(
        default_factory=list
    )  # of keys that are named, where no pattern closes any


class Came:
    """The records of each stream, and those that were processed. `expected` gets the others."""

    def __init__(
        self,
        pipeline: Pipeline,
        sellers: Sellers,
        records: list[Record],
        expected: Expected,
        partitions: Mapping[str, int],
    ) -> None:
        self.pipeline = pipeline
        self.sellers = sellers
        self.streams = [pipeline.streams[name] for name in pipeline.sides]
        self.partitions = [range(partitions[stream.topic]) for stream in self.streams]
        located = locate(records)
        self.lines = [self._read(stream, located, expected) for stream in self.streams]
        sides = range(len(self.streams))
        # Partition and key of what was processed.
        self.came: list[set[tuple[int, Key]]] = [set() for _ in sides]
        self.live = [self._processed(side, expected) for side in sides]
        self.progress = [self._progress(side) for side in sides]

    def _read(self, stream: Stream, located: list[Placed], expected: Expected) -> list[Line]:
        lines = []
        for topic, partition, offset, value, stamped, *_ in located:
            if topic != stream.topic or value is None:  # a tombstone says nothing
                continue
            found = fate(stream, value, self.pipeline.key)
            if isinstance(found, Promise) and self._is_ahead(stream, found, stamped):
                found = "dead letter"
            if isinstance(found, str):
                expected.dead_letters.append((topic, partition, offset, "unreadable", "made up", value))
            elif isinstance(found, Promise):
                lines.append(Line(partition, offset, (), {}, found))
            elif isinstance(found, tuple):
                lines.append(Line(partition, offset, found, {}))
            else:
                lines += self._row(
                    stream, Line(partition, offset, self.key(found), found, value=value), stamped, expected
                )
        return lines

    def _row(self, stream: Stream, row: Line, stamped: int, expected: Expected) -> list[Line]:
        """The lines of a row and of what it closes; none if it is set aside."""
        if None in row.key:
            expected.violations.append(_violation(stream, row, "null"))
            return []
        if is_future(stream, row.columns[stream.event_time.column], stamped):
            expected.violations.append(_violation(stream, row, "future"))
            return []
        said = said_by_row(stream, row.columns, self.pipeline.key)
        if said is None:
            return [row]
        if isinstance(said, Promise):
            return [row, Line(row.partition, row.offset, (), {}, said)]
        return [row, Line(row.partition, row.offset, said, {})]

    def _is_ahead(self, stream: Stream, found: Promise, stamped: int) -> bool:
        """True for a heartbeat that rules out a time at which a row would be of the future."""
        first = first_possible(stream, found)
        return first is not None and is_future(stream, first - timedelta(microseconds=1), stamped)

    def _matches(self, line: Line, key: Key) -> bool:
        """Return whether a punctuation matches a key, whatever the other columns."""
        if line.promise is None:
            return line.key == key
        on = self.pipeline.key
        return line.promise.speaks_of(on) and line.promise.matches(dict(zip(on, key, strict=True)))

    def closed(self, side: int, key: Key) -> bool:
        """Return whether a stream has closed a key by name, or in every partition by patterns or order."""
        by = [line for line in self.lines[side] if not line.columns and self._matches(line, key)]
        rows = {
            partition for partition, other in self.came[side] if other == key and self.streams[side].unique
        }
        rows |= {at for at in self.partitions[side] if self._ended(side, at, key) is not None}
        names = rows or any(self._names(line, key) for line in by)
        if names and self.streams[side].punctuation_scope == "partition":
            return True
        passed = [
            line for line in self.lines[side] if line.columns and precedes(self.streams[side], key, line.key)
        ]
        return len({line.partition for line in by + passed} | rows) == len(self.partitions[side])

    def _ended(self, side: int, partition: int, key: Key) -> int | None:
        rows = [
            (line.offset, line.key)
            for line in self.lines[side]
            if line.columns and line.partition == partition
        ]
        return end_of_run(self.streams[side], rows, key)

    def _names(self, line: Line, key: Key) -> bool:
        return line.promise is None or key in line.promise.named(self.pipeline.key)

    def key(self, columns: dict[str, Any]) -> Key:
        return tuple(columns[name] for name in self.pipeline.key)

    def time(self, side: int, line: Line) -> datetime:
        moment: datetime = line.columns[self.streams[side].event_time.column]
        return moment

    def _processed(self, side: int, expected: Expected) -> list[Line]:
        """Rows that enter the join."""
        stream, processed = self.streams[side], []
        for line in self.lines[side]:
            if not line.columns:
                continue
            before = [
                other
                for other in self.lines[side]
                if other.partition == line.partition and other.offset < line.offset
            ]
            times = [self.time(side, other) for other in before if other.columns]
            moment, said = self.time(side, line), [other for other in before if not other.columns]
            by_name = [other.offset for other in said if other.rules_out(line)]
            ends = [end for other in said if (end := self._end(side, other)) is not None]
            late = any(other - moment > stream.event_time.lateness for other in times)
            if late or any(moment < end for end in ends):
                reason = "late"
            elif any(precedes(stream, line.key, other.key) for other in before if other.columns):
                reason = "unordered"
            elif any(other.rules_out(line) and not self._names(other, line.key) for other in said):
                reason = "closed"
            elif stream.unique and (line.partition, line.key) in self.came[side]:
                reason = "repeated"
            elif is_behind(self._ended(side, line.partition, line.key), line.offset, by_name):
                reason = "unclustered"
            elif by_name:
                reason = "closed"
            else:
                processed.append(line)
                self.came[side].add((line.partition, line.key))
                continue
            broken = self._broken(before, line.key) if reason == "closed" else (None, None, None)
            expected.violations.append(_violation(stream, line, reason, broken))
        for lookup in self.pipeline.lookups_of(self.pipeline.sides[side]):
            processed = self._looked_up(lookup, stream.topic, processed, expected)
        return processed

    def _looked_up(self, lookup: Lookup, topic: str, processed: list[Line], expected: Expected) -> list[Line]:
        """One for each match, and what becomes of records without any row left."""
        joined, relation = [], OTHERS.get(lookup.relation, self.sellers)
        (asked,), declared = lookup.key, self.pipeline.relations[lookup.relation]
        columns = [name for name in declared.columns if name not in declared.key]
        for line in processed:
            value = self._value(lookup, asked, line)
            found = [row for key, *row in relation if value is not None and key == value]
            if (as_of := lookup.as_of) is not None:
                moment = line.columns[as_of.stream]
                past = [seller for seller in found if seller[2] is not None and seller[2] <= moment]
                found = sorted(past, key=lambda seller: seller[2])[-1:]
            if not found and lookup.fate == "nulls":
                found = [[None] * len(columns)]
            names = [f"{lookup.relation}.{name}" for name in columns]
            joined += [replace(line, found=line.found | dict(zip(names, row, strict=True))) for row in found]
        if lookup.fate == "dead_letter":
            left = {(line.partition, line.offset) for line in joined}
            gone = {(line.partition, line.offset): line.value for line in processed}
            expected.dead_letters += [
                (topic, *place, "no_match", "made up", value)
                for place, value in gone.items()
                if place not in left
            ]
        return joined

    def _value(self, lookup: Lookup, asked: str, line: Line) -> Any:
        """The value by which a row asks: its own, or of a relation that it has been looked up in."""
        origin, _, column = asked.rpartition(".")
        if not origin and column in line.columns:
            return line.columns[column]
        (value,) = (
            value for name, value in line.found.items() if name == asked or name.partition(".")[2] == asked
        )
        return value

    def _broken(self, before: list[Line], key: Key) -> tuple[str | None, int | None, int | None]:
        """The first promise of one key by its name; of patterns, nothing is said here."""
        by = [other for other in before if not other.columns and self._matches(other, key)]
        if not by or any(other.promise is not None for other in by):
            return None, None, None
        pattern = {name: {"equals": value} for name, value in zip(self.pipeline.key, key, strict=True)}
        return json.dumps(pattern, sort_keys=True, default=str), by[0].partition, by[0].offset

    def _end(self, side: int, line: Line) -> datetime | None:
        """The first event time that a heartbeat leaves possible."""
        return None if line.promise is None else first_possible(self.streams[side], line.promise)

    def _progress(self, side: int) -> datetime | None:
        reached, lateness = [], self.streams[side].event_time.lateness
        for partition in self.partitions[side]:
            own = [line for line in self.lines[side] if line.partition == partition]
            times = [self.time(side, line) - lateness for line in own if line.columns]
            times += [end for line in own if (end := self._end(side, line)) is not None]
            if not times:
                return None
            reached.append(max(times))
        return min(reached)


def _violation(stream: Stream, line: Line, reason: str, broken: Row = (None, None, None)) -> Row:
    moment = line.columns[stream.event_time.column]
    record = {name: _spelled(value, stream.columns[name].scale) for name, value in line.columns.items()}
    return (stream.topic, line.partition, line.offset, reason, moment, json.dumps(record), *broken)


def _spelled(value: Any, scale: int) -> Any:
    """A value as JSON has it, with all the digits of a decimal."""
    if isinstance(value, Decimal):
        return f"{value:.{scale}f}"
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return str(value) if isinstance(value, date) else value
