"""What becomes of records in the join and after it, by definition, as in `verify_came`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from endmark.operators.stream_join.presets import Preset
from endmark.pipeline import Aggregate, JoinStep, Pipeline
from endmark.types import JoinType
from support.hashable_rows import hashable_row
from support.verify_came import Came, Expected, Sellers
from support.verify_fates import Key
from support.verify_line import Line
from support.verify_measures import measured
from support.verify_world import TWO_EACH, Record, Row

Pair = tuple[Line, Line]


def recompute(
    pipeline: Pipeline,
    records: Iterable[Record],
    sellers: Sellers,
    condition: Callable[[dict[str, Any]], bool] = lambda pair: True,
    partitions: Mapping[str, int] = TWO_EACH,
) -> Expected:
    """`condition` is what the join's `where` says, of a pair's columns; `partitions` are counted by topic."""
    expected = Expected()
    given = pipeline, sellers, list(records), expected, partitions
    world = _World(*given) if pipeline.join is None else _Joined(*given, pipeline.join, condition)
    results = world.results()
    expected.results += [tuple(row.values()) for row in results]
    expected.groups += world.groups(results)
    expected.punctuations += world.announced()
    return expected


def _equals(stream: str, on: tuple[str, ...], key: Key) -> dict[str, Any]:
    return {f"{stream}_{name}": {"equals": value} for name, value in zip(on, key, strict=True)}


class _World(Came):
    """The results and groups of processed rows. Without a join, each row is a result."""

    def results(self) -> list[dict[str, Any]]:
        return [self._side(0, line) for line in self.live[0]]

    def _side(self, side: int, line: Line | None) -> dict[str, Any]:
        name = self.pipeline.sides[side]
        columns = list(self.pipeline.side_columns(name))
        if line is None:
            return dict.fromkeys(columns)
        own = (line.columns[column] for column in self.streams[side].columns)
        return dict(zip(columns, (*own, *line.found.values(), line.partition, line.offset), strict=True))

    def _is_final(self, key: Key) -> bool:
        """True if no result to come can have this key."""
        return self.closed(0, key)

    def announced(self) -> list[Row]:
        """The announced keys, each by the columns of each side that results show."""
        lines = [line for side in self.lines for line in side]
        named = {line.key for line in lines if not line.columns and line.promise is None}
        return [
            (json.dumps(_equals(stream, self.pipeline.key, key), default=str), "closed")
            for key in sorted(named)
            if self._is_final(key)
            for stream in self.pipeline.shown
        ]

    def groups(self, results: list[dict[str, Any]]) -> list[Row]:
        if not self.pipeline.groups:
            return []
        by_key: dict[Key, list[dict[str, Any]]] = {}
        for row in results:
            sides = (self._key_of(name, row) for name in self.pipeline.sides)
            by_key.setdefault(next(key for key in sides if None not in key), []).append(row)
        return [
            self._group(self.pipeline.groups[0].aggregate, key, rows)
            for key, rows in by_key.items()
            if self._is_final(key)
        ]

    def _key_of(self, stream: str, row: dict[str, Any]) -> Key:
        return tuple(row.get(f"{stream}_{column}") for column in self.pipeline.key)

    def _group(self, aggregate: Aggregate, key: Key, rows: list[dict[str, Any]]) -> Row:
        found = dict(zip(self.pipeline.key, key, strict=True))
        group = [found[name] for name in aggregate.by]
        group += [measured(self.pipeline, measure, rows) for measure in aggregate.measures.values()]
        return hashable_row(group)


class _Joined(_World):
    """The join of what was processed."""

    def __init__(
        self,
        pipeline: Pipeline,
        sellers: Sellers,
        records: list[Record],
        expected: Expected,
        partitions: Mapping[str, int],
        join: JoinStep,
        condition: Callable[[dict[str, Any]], bool],
    ) -> None:
        super().__init__(pipeline, sellers, records, expected, partitions)
        self._join = join
        self._condition = condition
        self.windows = tuple(map(pipeline.window_of, pipeline.sides))
        self.kept = (
            join.type in (JoinType.LEFT, JoinType.FULL),
            join.type in (JoinType.RIGHT, JoinType.FULL),
        )

    def results(self) -> list[dict[str, Any]]:
        pairs = [pair for pair in self.pairs() if self._condition(self.shown(*pair))]
        return self._of_pairs(pairs)

    def pairs(self) -> list[Pair]:
        return [
            (left, right)
            for left in self.live[0]
            for right in self.live[1]
            if left.key == right.key and self._within(self.time(1, right) - self.time(0, left))
        ]

    def _within(self, ahead: timedelta) -> bool:
        window = self.windows[0 if ahead >= timedelta(0) else 1]
        return window is None or abs(ahead) <= window

    def _of_pairs(self, pairs: list[Pair]) -> list[dict[str, Any]]:
        if self._join.type is JoinType.SEMI:
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
        """Return whether no later row of the other side can be this row's partner."""
        return self.closed(1 - side, line.key) or self._has_left(side, self.time(side, line))

    def _has_left(self, side: int, moment: datetime) -> bool:
        progress, window = self.progress[1 - side], self.windows[side]
        return progress is not None and window is not None and moment + window < progress

    def shown(self, left: Line | None, right: Line | None) -> dict[str, Any]:
        return self._side(0, left) | self._side(1, right)

    def _is_final(self, key: Key) -> bool:
        """True if no result to come can have this key."""
        if self.closed(0, key) and self.closed(1, key):
            return True
        for side in (0, 1):
            times = [self.time(side, line) for line in self.live[side] if line.key == key]
            over = all(self._has_left(side, moment) for moment in times)
            early = self._join.preset not in (Preset.PJOIN, Preset.MJOIN)
            if self.closed(side, key) and over and early and not self.kept[1 - side]:
                return True
        return False
