"""Runs a reference join over a history and checks Tucker's invariants after every element."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field

from endmark_papers.algorithms.contract import (
    Announced,
    Element,
    Output,
    ReferenceJoin,
    Result,
    Row,
    Side,
    Violation,
)
from endmark_papers.algorithms.mjoin import MetadataJoin
from support.join_definition import Knowledge, Windows, World
from support.join_moves import VALUES, Crash, Idle, Move, Save, elements


@dataclass(frozen=True)
class Subject:
    """An operator, and what its paper promises of it.

    Args:
        make: a new one.
        windows: what it was made with.
        punctuated: it knows punctuations.
        prompt: it emits a result with the later of its rows, and frees state with the element that allows it.
        announces: when an announcement is due: never, once both sides closed the value, or as soon as sound.
        knowledge: constraints it was told of, as `World` takes them.
    """

    make: Callable[[], ReferenceJoin]
    windows: Windows = field(default_factory=lambda: dict.fromkeys(Side))
    punctuated: bool = False
    prompt: bool = True
    announces: str = "never"
    knowledge: Knowledge = lambda row, before: []

    def world(self) -> World:
        return World(self.windows, self.punctuated, self.knowledge)


@dataclass
class _Run:
    """An operator on its way; a deep copy is a checkpoint of all of it."""

    operator: ReferenceJoin
    world: World
    results: set[Result] = field(default_factory=set)
    announced: set[object] = field(default_factory=set)
    violations: list[Row] = field(default_factory=list)


def check(subject: Subject, history: list[Move]) -> None:
    """Raise AssertionError when the operator does anything its definition rules out."""
    run = _Run(subject.make(), subject.world())
    saved, since = copy.deepcopy(run), list[Element | Idle]()
    for step in elements(history):
        match step:
            case Save():
                saved, since = copy.deepcopy(run), []
            case Crash():
                run = copy.deepcopy(saved)
                for lost in since:
                    _take(subject, run, lost)
            case _:
                since.append(step)
                _take(subject, run, step)
    _finish(subject, run)


def _take(subject: Subject, run: _Run, step: Element | Idle) -> None:
    if isinstance(step, Idle):
        outputs = run.operator.idle()
    else:
        run.world.arrive(step)
        outputs = run.operator.process(step)
    _note(run, outputs)
    live = list(run.operator.live())
    held = set(live)
    assert len(held) == len(live), "a row is held twice"
    assert run.operator.counters.state_rows == len(live)
    assert run.world.needed() <= held, "a row was freed that may still join"
    if subject.prompt:
        assert run.results == run.world.pairs(), "results are not those of the rows so far"
        assert held <= run.world.keepable(), "a row is kept that nothing can join"
    if subject.announces == "soon":
        assert run.announced >= {key for key in VALUES if _due(run.world, key)}, "an announcement is missing"


def _due(world: World, key: int) -> bool:
    """Return whether an operator that looks at windows when the other side moves can know it by now."""
    return any(
        world.closed(side, key)
        and (world.closed(side.other, key) or not any(row.key == key for row in _kept(world, side)))
        for side in Side
    )


def _kept(world: World, side: Side) -> set[Row]:
    return {row for row in world.keepable() if row.side is side}


def _note(run: _Run, outputs: list[Output]) -> None:
    for output in outputs:
        match output:
            case Result(left, _):
                assert left.key not in run.announced, "a result after its announcement"
                assert output not in run.results, "a result twice"
                run.results.add(output)
            case Violation(row):
                run.violations.append(row)
            case Announced(pattern):
                keys = {key for key in VALUES if pattern.matches(key)}
                assert keys - run.announced, "announced again, or nothing announced"
                early = [key for key in keys if not run.world.announceable(key)]
                assert not early, "announced what may still give results"
                owed = {pair for pair in run.world.pairs() - run.results if pair.left.key in keys}
                assert not owed, "announced before a result it rules out"
                run.announced |= keys
    assert run.results <= run.world.pairs(), "a wrong result"
    assert run.violations == run.world.violations
    counters = run.operator.counters
    assert (counters.results, counters.violations) == (len(run.results), len(run.violations))


def _finish(subject: Subject, run: _Run) -> None:
    _note(run, run.operator.finish())
    assert run.results == run.world.pairs()
    if subject.announces == "never":
        assert not run.announced
    else:
        both = {key for key in VALUES if all(run.world.closed(side, key) for side in Side)}
        assert run.announced >= both, "a value closed by both sides was not announced"


def check_queued(subject: Subject, history: list[Move]) -> None:
    """The same for MJoin when its queues fill up, so that its schedulers have a choice: a pause lets it work
    to the end, a checkpoint three steps, a crash one. Order is its own then, so the end is what counts."""
    operator, world, outputs = subject.make(), subject.world(), list[Output]()
    assert isinstance(operator, MetadataJoin)
    for step in elements(history):
        match step:
            case Idle():
                outputs += operator.idle()
            case Save() | Crash():
                outputs += operator.work(3 if isinstance(step, Save) else 1)
                operator = copy.deepcopy(operator)
            case _:
                world.arrive(step)
                operator.offer(step)
    outputs += operator.finish()
    announced, found = set[object](), list[Result]()
    for output in outputs:
        if isinstance(output, Announced):
            announced |= {key for key in VALUES if output.pattern.matches(key)}
        elif isinstance(output, Result):
            assert output.left.key not in announced, "a result after its announcement"
            found.append(output)
    assert len(found) == len(set(found)), "a result twice"
    assert set(found) == world.pairs()
    violations = {output.row for output in outputs if isinstance(output, Violation)}
    assert violations == set(world.violations)
    assert announced == {key for key in VALUES if all(world.closed(side, key) for side in Side)}
