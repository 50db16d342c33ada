"""Random programs of frame steps over tiny domains, and DuckDB's answer.

A program is steps on each of two streams, a join of them or none, and steps on what comes of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import duckdb
from hypothesis import strategies as st

from endmark.types import JoinType
from support.hashable_rows import hashable_row
from support.program_streams import DOMAIN, Row

NAMES = ("a", "b", "c", "d", "e")
MEASURES = ("n", "total", "least", "kinds", "every", "opened", "ended")
Nullable = dict[str, bool]
RELATION = ((0, 5), (2, 6))  # key and value
_DATABASE = duckdb.connect()
_DATABASE.execute("CREATE TABLE relation (k BIGINT, v BIGINT)")
_DATABASE.executemany("INSERT INTO relation VALUES (?, ?)", RELATION)


class Shown(NamedTuple):
    """A column of a step's result: `plain` is the column it is, or None if it is computed by `sql`."""

    name: str
    sql: str
    plain: str | None


@dataclass(frozen=True)
class Step:
    """`where` by a condition; a lookup of a column, `inner` or `left`, which adds `r_v`; `select`, or
    `with_column` of the name `adds`, both of which say all columns."""

    condition: str | None = None
    looks_up: tuple[str, str] | None = None
    shown: tuple[Shown, ...] = ()
    adds: str | None = None

    def of(self, source: str) -> str:
        if self.condition is not None:
            return f"FROM ({source}) WHERE {self.condition}"
        if self.looks_up is not None:
            column, how = self.looks_up
            return f"FROM ({source}) s {how} JOIN relation r ON s.{column} = r.k SELECT s.*, r.v AS r_v"
        return f"FROM ({source}) SELECT {', '.join(f'{each.sql} AS {each.name}' for each in self.shown)}"


@dataclass(frozen=True)
class Program:
    """Steps by place: `left`, `right` and `after`; `on` has a column of each side, or nothing is joined;
    groups go `by` some columns and measure one, its first and last value as `ordered_by` some, or there are
    none; `running` ones come out as they change, too."""

    steps: dict[str, list[Step]]
    kind: JoinType | None = None
    on: tuple[str, str] = ("", "")
    shown: dict[str, list[str]] = field(default_factory=dict)  # columns by place
    by: tuple[str, ...] = ()
    measured: str = ""
    ordered_by: tuple[str, ...] = ()
    running: bool = False

    @property
    def columns(self) -> list[str]:
        """Those of the program's result, in which no group runs."""
        return [*self.by, *MEASURES] if self.by else self.shown["after"]

    @property
    def sides(self) -> list[str]:
        return ["left", "right"] if self.kind else ["left"]

    @property
    def needed(self) -> list[str]:
        """The columns that groups are made of."""
        return list(dict.fromkeys([*self.by, self.measured, *self.ordered_by]))

    @property
    def measures(self) -> dict[str, Any]:
        """Return the measures in the form that a group-by takes."""
        functions = {"total": "sum", "least": "min", "kinds": "count_distinct", "every": "sorted"}
        functions |= {"opened": "first", "ended": "last"}
        return {"n": "count"} | {name: {each: self.measured} for name, each in functions.items()}

    def answer(self, rows: Mapping[str, Sequence[Row]]) -> Counter[Row]:
        """Return the program's answer to these rows, all at once."""
        left, *right = (_query(self.steps[side], _literal(rows[side])) for side in self.sides)
        joined = self._joined(left, right[0]) if right else left
        query = _query(self.steps["after"], joined)
        if self.by:
            x, key = self.measured, ", ".join(self.by)
            measures = f"count(*) AS n, sum({x}) AS total, min({x}) AS least, count(DISTINCT {x}) AS kinds"
            measures += f", coalesce(list({x} ORDER BY {x}) FILTER ({x} IS NOT NULL), []) AS every"
            order = ", ".join(f"{name} NULLS FIRST" for name in (*self.ordered_by, x))
            ends = ", ".join(
                f"{function}({x} ORDER BY {order}) FILTER ({x} IS NOT NULL) AS {name}"
                for function, name in (("first", "opened"), ("last", "ended"))
            )
            query = f"FROM ({query}) SELECT {key}, {measures}, {ends} GROUP BY {key}"
        found = _DATABASE.execute(f"FROM ({query}) SELECT {', '.join(self.columns)}")
        return Counter(map(hashable_row, found.fetchall()))

    def _joined(self, left: str, right: str) -> str:
        shown = ["left"] if self.kind is JoinType.SEMI else ["left", "right"]
        columns = [f"{side}s.{name} AS {side}_{name}" for side in shown for name in self.shown[side]]
        one, other = self.on
        pairs = f"({left}) lefts {self.kind} JOIN ({right}) rights ON lefts.{one} = rights.{other}"
        return f"FROM {pairs} SELECT {', '.join(columns)}"

    def steps_on(self, place: str, rows: Iterable[Row], columns: Sequence[str]) -> list[Row]:
        """Apply the steps of one place to rows of these columns, and return the rows that they give."""
        query = _query(self.steps[place], _literal(rows, columns))
        return _DATABASE.execute(f"FROM ({query}) SELECT {', '.join(self.shown[place])}").fetchall()


def _query(steps: Sequence[Step], source: str) -> str:
    for step in steps:
        source = step.of(source)
    return source


def _literal(rows: Iterable[Row], columns: Sequence[str] = tuple(DOMAIN)) -> str:
    """Rows as a query; of one row of nulls, whose types are wanted, there is none."""
    cast = ", ".join(f"CAST({name} AS BIGINT) AS {name}" for name in columns)
    nothing = tuple(None for _ in columns)
    written = ", ".join(
        f"({', '.join('NULL' if value is None else str(value) for value in row)}, {number})"
        for number, row in enumerate([nothing, *rows])
    )
    return f"FROM (VALUES {written}) t({', '.join(columns)}, n) SELECT {cast} WHERE n > 0"


@st.composite
def programs(draw: st.DrawFn, *, joined: bool = True, grouped: bool = True) -> Program:
    """`joined` and `grouped` say whether there may be a join, and groups."""
    joins = [JoinType.INNER, JoinType.LEFT, JoinType.FULL, JoinType.SEMI] if joined else []
    kind = draw(st.sampled_from([None, *joins]))
    steps, shown, on = {}, {}, []
    after: Nullable = {}
    for side in ("left", "right") if kind else ("left",):
        steps[side], columns = draw(_steps({name: None in values for name, values in DOMAIN.items()}))
        shown[side] = list(columns)
        on.append(draw(st.sampled_from(_solid(columns))))
        beside_nulls = (side == "right" and kind is JoinType.LEFT) or kind is JoinType.FULL
        if kind is not JoinType.SEMI or side == "left":
            after |= {f"{side}_{name}": nullable or beside_nulls for name, nullable in columns.items()}
    if kind is None:
        steps["after"] = []
    else:
        steps["after"], columns = draw(_steps(after))
    shown["after"] = list(columns)
    program = Program(steps, kind, (on[0], on[-1]), shown)
    if not grouped or not _solid(columns) or draw(st.booleans()):
        return program
    by = draw(st.lists(st.sampled_from(_solid(columns)), min_size=1, max_size=2, unique=True))
    order = draw(st.lists(st.sampled_from(list(columns)), min_size=1, max_size=2, unique=True))
    return replace(
        program, by=tuple(by), measured=draw(st.sampled_from(list(columns))), ordered_by=tuple(order)
    )


def _solid(columns: Nullable) -> list[str]:
    """Columns without nulls, which a join or a group can go by."""
    return [name for name, nullable in columns.items() if not nullable]


@st.composite
def _steps(draw: st.DrawFn, columns: Nullable) -> tuple[list[Step], Nullable]:
    found: list[Step] = []
    for kind in draw(st.lists(st.sampled_from(["where", "select", "with_column", "lookup"]), max_size=3)):
        if kind == "where" or (kind == "lookup" and "r_v" in columns):
            found.append(Step(draw(_conditions(list(columns)))))
            continue
        if kind == "lookup":
            asked = draw(st.sampled_from(list(columns))), draw(st.sampled_from(["inner", "left"]))
            found.append(Step(looks_up=asked))
            columns = columns | {"r_v": True}
            continue
        step, columns = draw(_selects(columns) if kind == "select" else _additions(columns))
        found.append(step)
    return found, columns


def _conditions(columns: list[str]) -> st.SearchStrategy[str]:
    one, other = st.sampled_from(columns), st.sampled_from(columns)
    return st.builds(
        lambda form, x, y: form.format(x=x, y=y),
        st.sampled_from(["{x} > 0", "{x} <> {y}", "{x} IS NULL", "NOT ({x} = 1)", "{x} = 1 OR {y} = 0"]),
        one,
        other,
    )


@st.composite
def _expressions(draw: st.DrawFn, columns: Nullable) -> tuple[str, str | None, bool]:
    """SQL, the column it is if it is one, and whether it may be null."""
    one, other = draw(st.sampled_from(list(columns))), draw(st.sampled_from(list(columns)))
    return draw(
        st.sampled_from(
            [
                (one, one, columns[one]),
                (one, one, columns[one]),
                (f"{one} + {other}", None, columns[one] or columns[other]),
                (f"1 - {one}", None, columns[one]),
                (f"coalesce({one} + 1, 7)", None, False),
            ]
        )
    )


@st.composite
def _selects(draw: st.DrawFn, columns: Nullable) -> tuple[Step, Nullable]:
    names = draw(st.lists(st.sampled_from([*columns, *NAMES]), min_size=1, max_size=4, unique=True))
    shown, now = [], {}
    for name in names:
        sql, plain, nullable = draw(_expressions(columns))
        shown.append(Shown(name, sql, plain))
        now[name] = nullable
    if all(now.values()):  # a column that a join can go by
        solid = [name for name, nullable in columns.items() if not nullable]
        sql = solid[0] if solid else f"coalesce({next(iter(columns))} + 1, 7)"
        name = next(name for name in ("d", "e", "f", "g", "h") if name not in now)
        shown.append(Shown(name, sql, solid[0] if solid else None))
        now[name] = False
    return Step(shown=tuple(shown)), now


@st.composite
def _additions(draw: st.DrawFn, columns: Nullable) -> tuple[Step, Nullable]:
    sql, plain, nullable = draw(_expressions(columns))
    name = draw(st.sampled_from([*columns, *NAMES]))
    now = columns | {name: nullable}
    if all(now.values()):
        sql, plain, now[name] = f"coalesce({next(iter(columns))} + 1, 7)", None, False
    kept = {each: Shown(each, each, each) for each in columns}
    return Step(shown=tuple((kept | {name: Shown(name, sql, plain)}).values()), adds=name), now
