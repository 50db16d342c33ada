"""The levels of a stream's lookups.

The lookups of a level are asked side by side. A level ends where the next lookup asks by a column that a
lookup of the level finds. So levels keep the order in which rows go through lookups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from endmark.pipeline import Lookup, Pipeline
    from endmark.pipeline.asked import Asked


@dataclass(frozen=True)
class LookupPlace:
    """The place of a lookup among those of its stream.

    Args:
        step: its place in the pipeline file, which begins the names of its knobs.
        asked: the columns by which the lookup asks.
        number: its number in their order, from 0.
        level: the number of its level, from 0.
        first: whether it is the first lookup of its level, which passes on the rows themselves.
        alone: whether it is the only lookup of its level.
        last: whether its level is the last one.
        found: the columns that lookups of earlier levels have added to the rows, by their names in results.
    """

    step: str
    asked: Asked
    number: int
    level: int
    first: bool
    alone: bool
    last: bool
    found: pa.Schema


def lookup_places(pipeline: Pipeline) -> dict[str, LookupPlace]:
    """Return the place of each lookup of a pipeline, by the name of its relation."""
    inputs = [given for stage in pipeline.stages for given in stage.inputs]
    return {name: place for given in inputs for name, place in _places(pipeline, given).items()}


def _places(pipeline: Pipeline, stream: str) -> dict[str, LookupPlace]:
    levels = _levels(pipeline, stream)
    places: dict[str, LookupPlace] = {}
    found = pa.schema([])
    for number, level in enumerate(levels):
        for lookup in level:
            places[lookup.relation] = LookupPlace(
                step=pipeline.place_of(lookup),
                asked=pipeline.asked_by(lookup),
                number=len(places),
                level=number,
                first=lookup is level[0],
                alone=len(level) == 1,
                last=number == len(levels) - 1,
                found=found,
            )
        found = pa.schema([*found, *(field for lookup in level for field in _added(pipeline, lookup))])
    return places


def _levels(pipeline: Pipeline, stream: str) -> list[list[Lookup]]:
    levels: list[list[Lookup]] = []
    for lookup in pipeline.lookups_of(stream):
        origins = pipeline.asked_by(lookup).origins
        if not levels or any(one.relation in origins for one in levels[-1]):
            levels.append([])
        levels[-1].append(lookup)
    return levels


def _added(pipeline: Pipeline, lookup: Lookup) -> list[pa.Field]:
    relation = pipeline.relations[lookup.relation]
    return [
        pa.field(f"{lookup.relation}_{name}", kind.arrow)
        for name, kind in relation.columns.items()
        if name not in relation.key
    ]
