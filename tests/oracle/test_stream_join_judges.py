"""The judges of the stream join agree: its definition, SQL, and the papers' algorithms a row at a time."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.operators.stream_join.presets import PRESETS, Preset
from endmark.punctuation.pattern import Equals
from endmark.types import JoinType
from endmark_papers.algorithms.contract import Closing, Element, ReferenceJoin, Result, Row, Side
from endmark_papers.algorithms.mjoin import MetadataJoin
from endmark_papers.algorithms.mjoin_options import MJoinOptions
from endmark_papers.algorithms.pjoin import PJoin
from endmark_papers.algorithms.pwjoin import PunctuatedWindowJoin
from endmark_papers.algorithms.shj import SymmetricHashJoin
from endmark_papers.algorithms.wjoin import WindowJoin
from endmark_papers.algorithms.xjoin import XJoin
from support.cases import cases
from support.stream_join_keys import KINDS
from support.stream_join_world import SIDES, Coordinates, Expected, History, expect, histories, processed

LONG = KINDS[0]
Windows = tuple[int | None, int | None]
REFERENCES: dict[Preset, Callable[[Windows], ReferenceJoin]] = {
    Preset.SHJ: lambda _: SymmetricHashJoin(),
    Preset.XJOIN: lambda _: XJoin(memory_rows=3, partitions=2),
    Preset.WJOIN: lambda windows: WindowJoin(*windows),
    Preset.PJOIN: lambda _: PJoin(memory_rows=3, partitions=2, purge_every=2),
    Preset.MJOIN: lambda _: MetadataJoin(MJoinOptions(memory_rows=3, buckets=2, purge_every=2)),
    Preset.PWJOIN: lambda windows: PunctuatedWindowJoin(*windows),
}
_PAIRS = """
SELECT l.p, l.o, r.p, r.o FROM l JOIN r ON l.k = r.k
WHERE coalesce(CASE WHEN l.t <= r.t THEN r.t - l.t <= $left ELSE l.t - r.t <= $right END, true)
    AND (NOT $residual OR l.v <= r.v AND l.v + r.v <= 2)
"""


def pairs(expected: Expected) -> set[tuple[Coordinates, Coordinates]]:
    return {(left, right) for left, right in expected.results if left is not None and right is not None}


@pytest.mark.parametrize("kind", [kind for kind in JoinType if kind is not JoinType.SEMI])
@cases(8, among=4)
@given(data=st.data())
def test_definition_equals_sql(kind: JoinType, data: st.DataObject) -> None:
    """Nested loops and DuckDB's join of all rows that are no violations have the same pairs."""
    history: History = data.draw(histories(kind))
    with duckdb.connect() as session:
        for side in SIDES:
            session.execute(f"CREATE TABLE {side[0]} (p BIGINT, o BIGINT, k BIGINT, t BIGINT, v BIGINT)")
            for at, offset, event in processed(history, LONG, side, Expected())[0]:
                row = [at, offset, event.key, event.time, event.value]
                session.execute(f"INSERT INTO {side[0]} VALUES (?, ?, ?, ?, ?)", row)  # noqa: S608
        windows = history.windows
        values = {"left": windows["left"], "right": windows["right"], "residual": history.residual}
        found = session.execute(_PAIRS, values).fetchall()

    assert {((p, o), (q, r)) for p, o, q, r in found} == pairs(expect(history, LONG))


@pytest.mark.parametrize("preset", REFERENCES)
@cases(8, among=len(REFERENCES))
@given(data=st.data())
def test_definition_equals_reference(preset: Preset, data: st.DataObject) -> None:
    """The algorithm that a preset is named after finds the same pairs, whatever it purges or spills."""
    history: History = data.draw(histories(JoinType.INNER, windowed=PRESETS[preset].window, residual=False))
    operator = REFERENCES[preset]((history.windows["left"], history.windows["right"]))

    outputs = [output for element in elements(history) for output in operator.process(element)]
    outputs += operator.finish()

    found = [(one.left.serial, one.right.serial) for one in outputs if isinstance(one, Result)]
    assert len(found) == len(set(found))
    assert {(divmod(one, 100), divmod(other, 100)) for one, other in found} == pairs(expect(history, LONG))


def elements(history: History) -> list[Element]:
    """Rows in order of time, each key that a stream has closed behind its last row."""
    found: list[tuple[float, int, Element]] = []
    for side in SIDES:
        rows, closed = processed(history, LONG, side, Expected())
        times: dict[int, float] = dict.fromkeys(closed, 0.0)
        for partition, offset, event in rows:
            assert event.time is not None
            row = Row(Side(side), event.key, event.time, 100 * partition + offset)
            found.append((event.time, 0, row))
            times[event.key] = max(times.get(event.key, 0.0), event.time)
        found += [(times[key], 1, Closing(Side(side), Equals(key), times[key])) for key in closed]
    return [element for _, _, element in sorted(found, key=lambda one: one[:2])]
