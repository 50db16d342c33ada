"""Every stream join of the papers against the join's definition and Tucker's invariants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from hypothesis import given, note

from endmark_papers.algorithms.contract import Row, Side
from support.cases import cases
from support.join_definition import World
from support.join_moves import Move, elements, from_yaml, moves, to_yaml
from support.join_oracle import check, check_queued
from support.join_subjects import QUEUED, SUBJECTS

REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.yaml"))


@pytest.mark.parametrize("name", SUBJECTS)
@cases(45)
@given(history=moves)
def test_reference_keeps_its_promises(name: str, history: list[Move]) -> None:
    """Results, violations, announcements and state are what the definition allows, after every element."""
    note(to_yaml(history))
    check(SUBJECTS[name], history)


@pytest.mark.parametrize("name", QUEUED)
@cases(45)
@given(history=moves)
def test_scheduling_changes_the_order_alone(name: str, history: list[Move]) -> None:
    """However MJoin chooses among what waits in its queues, the join is the same in the end."""
    note(to_yaml(history))
    check_queued(QUEUED[name], history)


@pytest.mark.parametrize("file", REGRESSIONS, ids=lambda file: file.stem)
def test_what_once_went_wrong(file: Path) -> None:
    """Shrunk counterexamples of the past, each with the operator that failed it."""
    case: dict[str, Any] = yaml.safe_load(file.read_text())
    history = from_yaml(case["history"])
    if case["operator"] in QUEUED:
        check_queued(QUEUED[case["operator"]], history)
    else:
        check(SUBJECTS[case["operator"]], history)


@cases(30)
@given(history=moves)
def test_definition_is_a_join(history: list[Move]) -> None:
    """The oracle's own definition is what a database makes of the same rows."""
    world = World({Side.LEFT: 2, Side.RIGHT: 4}, punctuated=False)
    rows = [step for step in elements(history) if isinstance(step, Row)]
    for row in rows:
        world.arrive(row)
    with duckdb.connect() as database:
        database.execute("CREATE TABLE r (side TEXT, key INT, time DOUBLE, serial INT)")
        if rows:
            database.executemany("INSERT INTO r VALUES (?, ?, ?, ?)", [list(row) for row in rows])
        found = database.execute(
            """SELECT l.serial, r.serial FROM r l JOIN r ON l.key = r.key AND l.side = 'left'
               AND r.side = 'right' AND r.time - l.time <= 2 AND l.time - r.time <= 4"""
        ).fetchall()

    assert sorted(found) == sorted((pair.left.serial, pair.right.serial) for pair in world.pairs())


@cases(30)
@given(history=moves)
def test_history_survives_its_yaml(history: list[Move]) -> None:
    """The text that a failure prints can be checked in unchanged."""
    assert from_yaml(yaml.safe_load(to_yaml(history)) or []) == history
