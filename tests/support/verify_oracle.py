"""What becomes of records, by definition: nested loops over Python values, nothing clever."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from endmark.joins.presets import Preset
from endmark.pipeline import Lookup, Pipeline, Stream
from endmark.types import JoinType
from support.counted import counted
from support.verify_declared import end_of_run, is_behind, precedes, said_by_row
from support.verify_fates import Key, Promise, fate
from support.verify_line import Line
from support.verify_measures import measured
from support.verify_others import OTHERS
from support.verify_world import PARTITIONS, Record, Row, locate

Sellers = Sequence[Row]
Pair = tuple[Line, Line]


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


def recompute(
    pipeline: Pipeline,
    records: Iterable[Record],
    sellers: Sellers,
    condition: Callable[[dict[str, Any]], bool] = lambda pair: True,
) -> Expected:
    """`condition` is what `join.where` says, of a pair's columns."""
    expected = Expected()
    world = _World(pipeline, sellers, list(records), expected)
    pairs = [pair for pair in world.pairs() if condition(world.shown(*pair))]
    expected.results += [tuple(row.values()) for row in world.results(pairs)]
    expected.groups += world.groups(world.results(pairs))
    expected.punctuations += world.announced()
    return expected


def _equals(stream: str, on: tuple[str, ...], key: Key) -> dict[str, Any]:
    return {f"{stream}_{name}": {"equals": value} for name, value in zip(on, key, strict=True)}


class _World:
    def __init__(
        self, pipeline: Pipeline, sellers: Sellers, records: list[Record], expected: Expected
    ) -> None:
        self.pipeline = pipeline
        self.sellers = sellers
        self.streams = [pipeline.streams[name] for name in pipeline.sides]
        self.windows = (pipeline.join.window.left, pipeline.join.window.right)
        kind = pipeline.join.type
        self.kept = (kind in (JoinType.LEFT, JoinType.FULL), kind in (JoinType.RIGHT, JoinType.FULL))
        located = locate(records)
        self.lines = [self._read(stream, located, expected) for stream in self.streams]
        self.came: list[set[tuple[int, Key]]] = [set(), set()]  # partition and key of what was processed
        self.live = [self._processed(side, expected) for side in (0, 1)]
        self.progress = [self._progress(side) for side in (0, 1)]

    def _read(
        self, stream: Stream, located: list[tuple[str, int, int, bytes | None, int]], expected: Expected
    ) -> list[Line]:
        lines = []
        for topic, partition, offset, value, _ in located:
            if topic != stream.topic:
                continue
            found = fate(stream, value, self.pipeline.join.on)
            if isinstance(found, str):
                expected.dead_letters.append((topic, partition, offset, "unreadable", "made up", value))
            elif isinstance(found, Promise):
                lines.append(Line(partition, offset, (), {}, found))
            elif isinstance(found, tuple):
                lines.append(Line(partition, offset, found, {}))
            else:
                lines.append(Line(partition, offset, self._key(found), found, value=value))
                said = said_by_row(stream, found, self.pipeline.join.on)
                if isinstance(said, Promise):
                    lines.append(Line(partition, offset, (), {}, said))
                elif said is not None:
                    lines.append(Line(partition, offset, said, {}))
        return lines

    def _matches(self, line: Line, key: Key) -> bool:
        """Whether a punctuation speaks of a key, whatever the other columns."""
        if line.promise is None:
            return line.key == key
        on = self.pipeline.join.on
        return line.promise.speaks_of(on) and line.promise.matches(dict(zip(on, key, strict=True)))

    def _closed(self, side: int, key: Key) -> bool:
        """Whether a stream has closed a key: by its name, or in every partition by patterns or order."""
        by = [line for line in self.lines[side] if not line.columns and self._matches(line, key)]
        rows = {
            partition for partition, other in self.came[side] if other == key and self.streams[side].unique
        }
        rows |= {at for at in range(PARTITIONS) if self._ended(side, at, key) is not None}
        names = rows or any(self._names(line, key) for line in by)
        if names and self.streams[side].punctuation_scope == "partition":
            return True
        passed = [
            line for line in self.lines[side] if line.columns and precedes(self.streams[side], key, line.key)
        ]
        return len({line.partition for line in by + passed} | rows) == PARTITIONS

    def _ended(self, side: int, partition: int, key: Key) -> int | None:
        rows = [
            (line.offset, line.key)
            for line in self.lines[side]
            if line.columns and line.partition == partition
        ]
        return end_of_run(self.streams[side], rows, key)

    def _names(self, line: Line, key: Key) -> bool:
        return line.promise is None or key in line.promise.named(self.pipeline.join.on)

    def _key(self, columns: dict[str, Any]) -> Key:
        return tuple(columns[name] for name in self.pipeline.join.on)

    def _time(self, side: int, line: Line) -> datetime:
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
            times = [self._time(side, other) for other in before if other.columns]
            moment, said = self._time(side, line), [other for other in before if not other.columns]
            by_name = [other.offset for other in said if other.rules_out(line)]
            if any(other - moment > stream.event_time.lateness for other in times):
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
            expected.violations.append(
                (stream.topic, line.partition, line.offset, reason, moment, "{}", *broken)
            )
        for lookup in self.pipeline.lookups_of(self.pipeline.sides[side]):
            processed = self._looked_up(lookup, stream.topic, processed, expected)
        return processed

    def _looked_up(self, lookup: Lookup, topic: str, processed: list[Line], expected: Expected) -> list[Line]:
        """One for each match, and what becomes of records without any."""
        joined, letters, relation = [], set(), OTHERS.get(lookup.relation, self.sellers)
        for line in processed:
            found = [seller for key, *seller in relation if key == line.columns["seller_id"]]
            if (as_of := lookup.as_of) is not None:
                moment = line.columns[as_of.stream]
                past = [seller for seller in found if seller[2] is not None and seller[2] <= moment]
                found = sorted(past, key=lambda seller: seller[2])[-1:]
            if not found and lookup.fate == "nulls":
                found = [[None] * (len(self.pipeline.relations[lookup.relation].columns) - 1)]
            if not found and lookup.fate == "dead_letter":
                letters.add((topic, line.partition, line.offset, "no_match", "made up", line.value))
            joined += [replace(line, found=(*line.found, *seller)) for seller in found]
        expected.dead_letters += letters
        return joined

    def _broken(self, before: list[Line], key: Key) -> tuple[str | None, int | None, int | None]:
        """The first promise of one key by its name; of patterns, nothing is said here."""
        by = [other for other in before if not other.columns and self._matches(other, key)]
        if not by or any(other.promise is not None for other in by):
            return None, None, None
        pattern = {name: {"equals": value} for name, value in zip(self.pipeline.join.on, key, strict=True)}
        return json.dumps(pattern, sort_keys=True, default=str), by[0].partition, by[0].offset

    def _progress(self, side: int) -> datetime | None:
        newest = []
        for partition in range(PARTITIONS):
            times = [
                self._time(side, line)
                for line in self.lines[side]
                if line.partition == partition and line.columns
            ]
            if not times:
                return None
            newest.append(max(times))
        return min(newest) - self.streams[side].event_time.lateness

    def pairs(self) -> list[Pair]:
        return [
            (left, right)
            for left in self.live[0]
            for right in self.live[1]
            if left.key == right.key and self._within(self._time(1, right) - self._time(0, left))
        ]

    def _within(self, ahead: timedelta) -> bool:
        window = self.windows[0 if ahead >= timedelta(0) else 1]
        return window is None or abs(ahead) <= window

    def results(self, pairs: list[Pair]) -> list[dict[str, Any]]:
        if self.pipeline.join.type is JoinType.SEMI:
            found = [left for left in self.live[0] if any(pair[0] is left for pair in pairs)]
            return [self._side(0, left) for left in found]
        alone = [self._alone(side, pairs) if self.kept[side] else [] for side in (0, 1)]
        left_alone = [self.shown(line, None) for line in alone[0]]
        right_alone = [self.shown(None, line) for line in alone[1]]
        return [self.shown(*pair) for pair in pairs] + left_alone + right_alone

    def _alone(self, side: int, pairs: list[Pair]) -> list[Line]:
        return [
            line
            for line in self.live[side]
            if not any(pair[side] is line for pair in pairs) and self._is_over(side, line)
        ]

    def _is_over(self, side: int, line: Line) -> bool:
        """Whether no row to come of the other side can be this row's partner."""
        return self._closed(1 - side, line.key) or self._has_left(side, self._time(side, line))

    def _has_left(self, side: int, moment: datetime) -> bool:
        progress, window = self.progress[1 - side], self.windows[side]
        return progress is not None and window is not None and moment + window < progress

    def shown(self, left: Line | None, right: Line | None) -> dict[str, Any]:
        return self._side(0, left) | self._side(1, right)

    def _side(self, side: int, line: Line | None) -> dict[str, Any]:
        name = self.pipeline.sides[side]
        columns = list(self.pipeline.side_columns(name))
        if line is None:
            return dict.fromkeys(columns)
        own = (line.columns[column] for column in self.streams[side].columns)
        return dict(zip(columns, (*own, *line.found, line.partition, line.offset), strict=True))

    def _is_final(self, key: Key) -> bool:
        """Whether no result to come can have this key."""
        if self._closed(0, key) and self._closed(1, key):
            return True
        for side in (0, 1):
            times = [self._time(side, line) for line in self.live[side] if line.key == key]
            over = all(self._has_left(side, moment) for moment in times)
            early = self.pipeline.join.preset not in (Preset.PJOIN, Preset.MJOIN)
            if self._closed(side, key) and over and early and not self.kept[1 - side]:
                return True
        return False

    def announced(self) -> list[Row]:
        """By the columns of each side that results show."""
        lines = [line for side in self.lines for line in side]
        named = {line.key for line in lines if not line.columns and line.promise is None}
        shown = self.pipeline.sides[:1] if self.pipeline.join.type is JoinType.SEMI else self.pipeline.sides
        return [
            (json.dumps(_equals(stream, self.pipeline.join.on, key), default=str), "closed")
            for key in sorted(named)
            if self._is_final(key)
            for stream in shown
        ]

    def groups(self, results: list[dict[str, Any]]) -> list[Row]:
        by_key: dict[Key, list[dict[str, Any]]] = {}
        for row in results:
            sides = (self._key_of(name, row) for name in self.pipeline.sides)
            by_key.setdefault(next(key for key in sides if None not in key), []).append(row)
        return [self._group(key, rows) for key, rows in by_key.items() if self._is_final(key)]

    def _key_of(self, stream: str, row: dict[str, Any]) -> Key:
        return tuple(row.get(f"{stream}_{column}") for column in self.pipeline.join.on)

    def _group(self, key: Key, rows: list[dict[str, Any]]) -> Row:
        found, aggregate = dict(zip(self.pipeline.join.on, key, strict=True)), self.pipeline.aggregate
        assert aggregate is not None
        group = [found[name] for name in aggregate.by]
        group += [measured(self.pipeline, measure, rows) for measure in aggregate.measures.values()]
        return counted(group)
