"""Random programs of frame steps without Spark: the rows are DuckDB's, and what is said of them is Tucker's.

Rows take the steps in DuckDB, a batch at a time; what becomes of punctuations, and the join, is the engine's.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from endmark.frame.texts import Writer
from endmark.types import JoinType
from endmark.wire.renamed_punctuations import Renaming
from support.cases import cases
from support.frame_tasks import COLUMN, Frame, FrameTasks, Rows, said
from support.group_tasks import GroupTasks
from support.hashable_rows import hashable_row
from support.program_streams import DOMAIN, ProgramBatch, Row, matches, meaning, possible, streams
from support.programs import Program, Step, programs
from support.sizes import BUCKETS, PARTITIONS

AT = datetime(2026, 1, 1, tzinfo=UTC)
BATCHES = 3
Told = tuple[list[Row], list[str]]


def renaming(columns: list[str], steps: list[Step]) -> Renaming:
    found = Renaming.none(pa.schema([(name, pa.int64()) for name in columns]))
    for step in steps:
        if step.looks_up is not None:
            found = found.then({name: name for name in found.origins} | {"r_v": None})
        elif step.condition is None:
            found = found.then({each.name: each.plain for each in step.shown})
    return found


class Run:
    """A program batch by batch; `buckets` share its state, and so many tasks pack each frame."""

    def __init__(self, program: Program, directory: Path, buckets: int = 2, packing: int = 2) -> None:
        self._program = program
        self._buckets, self._packing = buckets, packing
        self._grouped: GroupTasks | None = None
        self._renamings = {side: renaming(list(DOMAIN), program.steps[side]) for side in program.sides}
        if program.kind is None:
            self._after = self._renamings["left"]
        else:
            self._after = self._joined(program.kind, directory)
        if program.by:
            rows = pa.schema([(name, pa.int64()) for name in program.needed])
            after = self._after.then({name: name for name in program.needed})
            self._grouped = GroupTasks(
                rows,
                after,
                directory,
                program.by,
                program.measures,
                program.ordered_by,
                running=program.running,
                buckets=buckets,
                packing=packing,
            )

    def _joined(self, kind: JoinType, directory: Path) -> Renaming:
        program = self._program
        frames = {
            side: Frame(
                pa.schema(
                    [(name, pa.int64()) for name in program.shown[side]] + [("at", pa.timestamp("us", "UTC"))]
                ),
                (on,),
                "at",
                renaming=self._renamings[side],
            )
            for side, on in zip(program.sides, program.on, strict=True)
        }
        self._join = FrameTasks(frames, directory, kind=kind, buckets=self._buckets, packing=self._packing)
        self._columns = [name for name in self._join.schema.names if not name.endswith(("_at", COLUMN))]
        return renaming(self._columns, program.steps["after"])

    def batch(self, came: dict[str, ProgramBatch]) -> Told:
        """Rows and texts of the result."""
        inputs = {
            side: self._program.steps_on(side, batch.rows, list(DOMAIN)) for side, batch in came.items()
        }
        if self._program.kind is None:
            rows, texts = inputs["left"], came["left"].texts
        else:
            joined = self._join.batch(*(self._control(side, inputs[side], came) for side in came))
            found = [tuple(row[name] for name in self._columns) for row in joined if row[COLUMN] is None]
            rows = self._program.steps_on("after", found, self._columns)
            texts = [row[COLUMN] for row in joined if row[COLUMN] is not None]
        renamed = self._after
        if self._grouped is not None:
            rows, texts = self._groups(self._grouped, rows, texts)
            renamed = self._grouped.grouping.renaming
        if renamed.needed:
            texts = Writer(renamed)(pa.array(texts, pa.string())).to_pylist()
        return rows, [text for text in texts if text is not None]

    def _groups(self, grouped: GroupTasks, rows: list[Row], texts: list[str]) -> Told:
        columns = self._program.shown["after"]
        named = [dict(zip(columns, row, strict=True)) for row in rows]
        out = grouped.batch([*map(said, texts), *named])
        names = [name for name in grouped.grouping.schema.names if name not in self._program.columns]
        groups = [
            hashable_row(row[name] for name in [*self._program.columns, *names])
            for row in out
            if row[COLUMN] is None
        ]
        return groups, [row[COLUMN] for row in out if row[COLUMN] is not None]

    def _control(self, side: str, rows: list[Row], came: dict[str, ProgramBatch]) -> Rows:
        named = [dict(zip(self._program.shown[side], row, strict=True)) | {"at": AT} for row in rows]
        return [*map(said, came[side].texts), *named]


@cases(13)
@given(data=st.data(), buckets=BUCKETS, packing=PARTITIONS)
def test_programs_equal_duckdb_and_keep_to_their_punctuations(
    data: st.DataObject, buckets: int, packing: int
) -> None:
    """All rows are there in the end, but those that wait for a partner; no row matches what an earlier batch
    said, nor could any that the promises so far allow; and each text that was none is a dead letter, once."""
    program = data.draw(programs())
    came = {side: data.draw(streams(BATCHES)) for side in program.sides}
    past: dict[str, list[Row]] = {side: [] for side in came}
    promised: dict[str, list[dict[str, frozenset[int]]]] = {side: [] for side in came}
    out: Counter[Row] = Counter()
    announced: list[dict[str, frozenset[int]]] = []
    columns = program.columns
    refused: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as directory:
        run = Run(program, Path(directory), buckets, packing)
        for number in range(BATCHES):
            batch = {side: batches[number] for side, batches in came.items()}
            rows, texts = run.batch(batch)
            assert not [row for row in rows for each in announced if _matches(each, columns, row)]
            out.update(rows)
            for side, each in batch.items():
                past[side] += each.rows
                promised[side] += [told for text in each.texts if (told := meaning(text)) is not None]
            wrong, good = _sorted(texts, columns)
            refused.update(wrong)
            announced += good
            for row in _still(program, past, promised, out):
                assert not [each for each in announced if _matches(each, columns, row)], row
    assert out <= program.answer(past)
    if not program.by and program.kind in (None, JoinType.INNER, JoinType.SEMI):
        assert out == program.answer(past)
    written = [text for batches in came.values() for each in batches for text in each.texts]
    assert refused == Counter(text for text in written if meaning(text) is None)


def _sorted(texts: list[str], columns: list[str]) -> tuple[list[str], list[dict[str, frozenset[int]]]]:
    """The texts that say nothing, which are dead letters once something has read them, and what the others
    say."""
    letters = [text for text in texts if text.startswith('{"$dead_letter": ')]
    found = [(text, meaning(text, columns)) for text in texts if text not in letters]
    wrong = [str(json.loads(text)["$dead_letter"]["value"]) for text in letters]
    wrong += [text for text, each in found if each is None]
    return wrong, [each for _, each in found if each is not None]


def _still(
    program: Program,
    past: dict[str, list[Row]],
    promised: dict[str, list[dict[str, frozenset[int]]]],
    out: Counter[Row],
) -> Iterator[Row]:
    """Rows that may still come out: of all that either stream may still have, or both, or neither."""
    coming = {side: possible(promised[side]) for side in past}
    for sides in product((False, True), repeat=len(past)):
        rows = {side: past[side] + coming[side] * more for side, more in zip(past, sides, strict=True)}
        found = program.answer(rows) - out
        # Of a group that is out there is no other row, whatever comes.
        done = {row[: len(program.by)] for row in out} if program.by else set()
        assert not [row for row in found if row[: len(program.by)] in done]
        yield from found


def _number(row: Row) -> int:
    """Return the number of the batch that a running group's row belongs to."""
    assert row[-1] is not None
    return row[-1]


def _matches(promise: dict[str, frozenset[int]], columns: list[str], row: Row) -> bool:
    return matches(promise, dict(zip(columns, row, strict=True)))


@cases(20)
@given(data=st.data())
def test_what_speaks_of_columns_that_are_there_passes(data: st.DataObject) -> None:
    """A punctuation whose columns all survive comes out once, with its own batch; it says the same of them by
    their names now. All others end."""
    program = data.draw(programs(joined=False, grouped=False))
    names = _survivors(program)
    with tempfile.TemporaryDirectory() as directory:
        run = Run(program, Path(directory))
        for batch in data.draw(streams(BATCHES)):
            said = [each for text in batch.texts if (each := meaning(text)) is not None]
            expected = Counter(
                frozenset((names[name], numbers) for name, numbers in each.items())
                for each in said
                if names.keys() >= each.keys() and names
            )
            _, good = _sorted(run.batch({"left": batch})[1], program.shown["after"])
            assert Counter(frozenset(each.items()) for each in good) == expected


def _survivors(program: Program) -> dict[str, str]:
    """The name now of each column that is still there, found by values that nothing else has: what is
    computed has none, since `1 - (1 - a)` would have that of `a`."""
    marks = {name: 1000 * 7**place for place, name in enumerate(DOMAIN)}
    steps = [_uncomputed(step) for step in program.steps["left"] if step.condition is None]
    unfiltered = replace(program, steps={"left": steps, "after": []})
    (row,) = unfiltered.answer({"left": [tuple(marks.values())]})
    found: dict[str, str] = {}
    for now, value in zip(program.shown["after"], row, strict=True):
        for name, mark in marks.items():
            if mark == value:
                found.setdefault(name, now)
    return found


def _uncomputed(step: Step) -> Step:
    """The step with nulls for what it computes; no row goes without a match."""
    if step.looks_up is not None:
        return replace(step, looks_up=(step.looks_up[0], "left"))
    null = "CAST(NULL AS BIGINT)"
    return replace(step, shown=tuple(each if each.plain else each._replace(sql=null) for each in step.shown))


@cases(15)
@given(data=st.data(), buckets=BUCKETS, packing=PARTITIONS)
def test_groups_come_out_once_their_key_is_closed(data: st.DataObject, buckets: int, packing: int) -> None:
    """All of those that a punctuation on columns of the key closes, in the batch that brings it; the end of
    the stream closes the others."""
    program = data.draw(programs(joined=False).filter(lambda each: each.by != ()))
    there = _survivors(replace(program, by=(), shown=program.shown | {"after": program.needed}))
    names = {name: now for name, now in there.items() if now in program.by}
    past: list[Row] = []
    closed: list[dict[str, frozenset[int]]] = []
    out: Counter[Row] = Counter()
    with tempfile.TemporaryDirectory() as directory:
        run = Run(program, Path(directory), buckets, packing)
        for batch in [*data.draw(streams(BATCHES)), ProgramBatch([], ['{"a": {"anything": true}}'])]:
            rows, texts = run.batch({"left": batch})
            out.update(rows)
            past += batch.rows
            said = [each for text in batch.texts if (each := meaning(text)) is not None]
            speak = [each for each in said if names.keys() >= each.keys() and (each or there)]
            closed += [{names[name]: numbers for name, numbers in each.items()} for each in speak]
            answer = program.answer({"left": past})
            assert out == Counter(
                row for row in answer if any(_matches(each, program.columns, row) for each in closed)
            )
            assert not [text for text in texts if "$violation" in text]


@cases(9)
@given(data=st.data(), buckets=BUCKETS, packing=PARTITIONS)
def test_a_running_group_comes_out_as_it_is_by_then(data: st.DataObject, buckets: int, packing: int) -> None:
    """Once in a batch that has rows of it, and at last in the one that closes it; so of its rows the one of
    the greatest batch is DuckDB's, of all rows so far, and nothing that is said rules out a row to come."""
    program = data.draw(programs(joined=False).filter(lambda each: each.by != ()))
    key, width = len(program.by), len(program.columns)
    past: list[Row] = []
    latest: dict[Row, Row] = {}
    announced: list[dict[str, frozenset[int]]] = []
    with tempfile.TemporaryDirectory() as directory:
        run = Run(replace(program, running=True), Path(directory), buckets, packing)
        closed = Run(program, Path(directory))
        for batch in [*data.draw(streams(BATCHES)), ProgramBatch([], ['{"a": {"anything": true}}'])]:
            rows, texts = run.batch({"left": batch})
            final, same = closed.batch({"left": batch})
            assert not [
                row for row in rows for each in announced if _matches(each, program.columns, row[:width])
            ]
            past += batch.rows
            came = program.answer({"left": batch.rows})
            told = {row[:key]: row for row in rows}
            assert len(told) == len(rows)
            assert told.keys() == {row[:key] for row in [*came, *final]}
            assert {key for key, row in told.items() if row[width]} == {row[:key] for row in final}
            numbers = {row[-1] for row in rows}
            assert not [row for name in told if name in latest for row in [latest[name]] if row[width]]
            assert not numbers & {row[-1] for row in latest.values()}
            latest = {row[:key]: row for row in sorted([*latest.values(), *rows], key=_number)}
            assert Counter(row[:width] for row in latest.values()) == program.answer({"left": past})
            announced += _sorted(texts, program.columns)[1]
            assert sorted(texts) == sorted(same)
