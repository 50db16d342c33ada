"""The levels of a stream's lookups.

The lookups of a level are asked side by side. A level ends where the next lookup asks by a column that a
lookup of the level finds, and where row steps stand between the two. So levels keep the order in which rows
go through lookups.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from endmark.pipeline.steps.lookup import LookupStep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from endmark.expressions.row_steps import RowStep
    from endmark.pipeline import Lookup, Pipeline
    from endmark.pipeline.lookup_columns import LookupColumns


@dataclass(frozen=True)
class LookupPosition:
    """The position of a lookup among those of its stream.

    Args:
        step: its field in the pipeline file, which begins the names of its knobs.
        asked: the columns by which the lookup asks.
        number: its number among the lookups of its stream and the row steps behind them, in their order. It
            says which of these has given a row up.
        level: the number of its level, from 0.
        first: whether it is the first lookup of its level, which passes on the rows themselves.
        alone: whether it is the only lookup of its level.
        last: whether its level is the last one.
        stepped: whether row steps stand behind its level.
        found: the columns that lookups of earlier levels, and row steps behind them, have added to the rows,
            by their names in results.
    """

    step: str
    asked: LookupColumns
    number: int
    level: int
    first: bool
    alone: bool
    last: bool
    stepped: bool
    found: pa.Schema


@dataclass(frozen=True)
class PlacedStep:
    """A row step behind a lookup.

    Args:
        step: the step.
        level: the number of the level of lookups that it stands behind.
        number: its number among the lookups and steps of its stream, as `LookupPosition.number`. The next
            numbers are those of its expressions, for rows on which one of these fails.
    """

    step: RowStep
    level: int
    number: int

    @property
    def failing(self) -> dict[int, str]:
        """The fields of its expressions by their numbers."""
        where = [] if self.step.where is None else [self.step.where.field]
        derived = [derivation.expression.field for derivation in self.step.derived.values()]
        return dict(enumerate([*where, *derived], self.number + 1))


def lookup_positions(pipeline: Pipeline) -> dict[str, LookupPosition]:
    """Return the position of each lookup of a pipeline, by the name of its relation."""
    inputs = [given for stage in pipeline.stages for given in stage.inputs]
    return {lookup.relation: position for given in inputs for lookup, position in _positions(pipeline, given)}


def placed_steps(pipeline: Pipeline, given: str) -> tuple[PlacedStep, ...]:
    """Return the row steps behind lookups of an input, in order."""
    numbers = _numbers(pipeline, given)
    return tuple(
        PlacedStep(step, number, numbers[step.name])
        for number, level in enumerate(_levels(pipeline, given))
        for step in level.steps
    )


@dataclass
class _Level:
    """Lookups that are asked side by side, and the row steps behind them."""

    lookups: list[Lookup] = field(default_factory=list)
    steps: list[RowStep] = field(default_factory=list)


def _positions(pipeline: Pipeline, given: str) -> Iterator[tuple[Lookup, LookupPosition]]:
    """Yield each lookup of an input, with its position among all of them."""
    levels, numbers = _levels(pipeline, given), _numbers(pipeline, given)
    found = pa.schema([])
    for number, level in enumerate(levels):
        for lookup in level.lookups:
            step = pipeline.field_of(lookup)
            yield (
                lookup,
                LookupPosition(
                    step=step,
                    asked=pipeline.asked_by(lookup),
                    number=numbers[step.split(".")[1]],
                    level=number,
                    first=lookup is level.lookups[0],
                    alone=len(level.lookups) == 1,
                    last=number == len(levels) - 1,
                    stepped=bool(level.steps),
                    found=found,
                ),
            )
        added = [field for lookup in level.lookups for field in _added(pipeline, lookup)]
        derived = [pa.field(name, kind.arrow) for step in level.steps for name, kind in step.added.items()]
        found = pa.schema([*found, *added, *derived])


def _levels(pipeline: Pipeline, given: str) -> list[_Level]:
    levels: list[_Level] = []
    for step in _looked_up(pipeline, given):
        if not isinstance(step, LookupStep):
            levels[-1].steps.append(step)
            continue
        origins = pipeline.asked_by(step.lookup).origins
        ends = levels and (levels[-1].steps or any(one.relation in origins for one in levels[-1].lookups))
        if not levels or ends:
            levels.append(_Level())
        levels[-1].lookups.append(step.lookup)
    return levels


def _numbers(pipeline: Pipeline, given: str) -> dict[str, int]:
    """Return the number of each lookup, and of each row step behind one, by the name of the step."""
    numbers, number = dict[str, int](), 0
    names, steps = pipeline.flow.paths[given], _looked_up(pipeline, given)
    for name, step in zip(names[len(names) - len(steps) :], steps, strict=True):
        numbers[name] = number
        number += 1 if isinstance(step, LookupStep) else 1 + len(PlacedStep(step, 0, 0).failing)
    return numbers


def _looked_up(pipeline: Pipeline, given: str) -> list[LookupStep | RowStep]:
    """Return the lookups of an input and the checked row steps behind them, in order."""
    checked = pipeline.stage_of(given).columns.looked_up_steps(given)
    found: list[LookupStep | RowStep] = []
    for name in pipeline.flow.paths[given]:
        step = pipeline.steps[name]
        if isinstance(step, LookupStep):
            found.append(step)
        elif name in checked:
            found.append(checked[name])
    return found


def _added(pipeline: Pipeline, lookup: Lookup) -> list[pa.Field]:
    relation = pipeline.relations[lookup.relation]
    return [
        pa.field(f"{lookup.relation}_{name}", kind.arrow)
        for name, kind in relation.columns.items()
        if name not in relation.key
    ]
