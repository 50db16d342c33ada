"""Knobs: fields of the pipeline file that may be turned while the job runs, by control records.

They are those that may change between any two batches, since no row in state depends on them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from operator import attrgetter, getitem
from typing import TYPE_CHECKING, Any, Literal, get_args

from endmark.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endmark.pipeline import Pipeline
    from endmark.pipeline.steps import Cache, Join, Lookup


@dataclass(frozen=True)
class Knob:
    """A field that may be turned: what its values are and what turning it does, for people.

    All of them are turned while the job runs and keep the checkpoint.
    """

    kind: Literal["choice", "duration", "size", "number"]
    values: str
    effect: str


# By their names in a file that has one lookup.
KNOBS = {
    "lookup.strategy": Knob(
        "choice",
        "auto takes the cheapest by what each has cost",
        "How the relation is read: by pages, by lists of keys or all of it.",
    ),
    "lookup.page_rows": Knob(
        "number",
        "1 to 1000000",
        "Rows of a page: each Python process makes its page directory anew, by a short read for each page.",
    ),
    "lookup.time_per_batch": Knob(
        "duration",
        "such as 500ms or 2s; null: until all is answered",
        "How long a full batch reads the relation; rows that it leaves wait for the next.",
    ),
    "lookup.memory": Knob(
        "size",
        "such as 64MB; a number is bytes",
        "What rows may take that a batch leaves waiting, in all buckets; beyond it, the batch reads on.",
    ),
    "lookup.cache.memory": Knob(
        "size",
        "such as 64MB; a number is bytes",
        "What rows of the relation at hand may take in each Python process; less lets go of the rarest.",
    ),
    "lookup.cache.lifetime": Knob(
        "duration",
        "such as 30s or 5m",
        "How long what the relation had is believed, and so how old it may be in results.",
    ),
    "lookup.cache.absent_lifetime": Knob(
        "duration",
        "such as 10s",
        "How long the relation is believed not to have a key that it did not have.",
    ),
    "join.purge_every": Knob(
        "number",
        "1 or more; presets that purge with each punctuation take 1 alone",
        "How many punctuations of a stream make a purge: more of them are less work and more state.",
    ),
    "join.memory": Knob(
        "size",
        "such as 256MB; a number is bytes; null: any number; presets that do not spill take null alone",
        "What rows of both streams may take, in all buckets; those beyond it meet later rows in a pause.",
    ),
}

# What the file says of each step that has knobs, by the step's name.
Steps = dict[str, dict[str, Any]]


def steps_of(pipeline: Pipeline) -> Steps:
    """What the pipeline file says of the steps that have knobs, as JSON has it, durations in seconds."""
    lookups = pipeline.lookups
    names = lookup_steps([each.relation for each in lookups])
    steps: dict[str, Lookup | Join] = dict(zip(names, lookups, strict=True))
    steps["join"] = pipeline.join
    plain = {name: json.dumps(step.model_dump(), default=as_number) for name, step in steps.items()}
    return {name: json.loads(step) for name, step in plain.items()}


def lookup_steps(relations: Sequence[str]) -> list[str]:
    """What the lookups of these relations are called: with that of the relation, where there are several."""
    return ["lookup"] if len(relations) == 1 else [f"lookup.{relation}" for relation in relations]


def knobs_of(steps: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The names of all knobs."""
    return list(_places(steps))


def knob(steps: Mapping[str, Mapping[str, Any]], name: str) -> Knob:
    """What there is to say of a knob."""
    return KNOBS[_places(steps)[name].usual]


def choices(steps: Mapping[str, Mapping[str, Any]], name: str) -> list[str]:
    """The values of a knob that has so few of them that they can be told."""
    place = _places(steps)[name]
    if KNOBS[place.usual].kind != "choice":
        return []
    return list(get_args(_model(place).model_fields[place.path[-1]].annotation))


def default(steps: Mapping[str, Mapping[str, Any]], name: str) -> Any:
    """The value of a knob where the pipeline file says nothing, as `turned` gives it."""
    place = _places(steps)[name]
    return as_number(_model(place).model_fields[place.path[-1]].default)


def filed(steps: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The value of each knob in the pipeline file, as `turned` gives them."""
    return {name: reduce(getitem, at.path, steps[at.step]) for name, at in _places(steps).items()}


def turned(steps: Mapping[str, Mapping[str, Any]], name: str, value: Any) -> Any:
    """The value of a knob as tasks take it, durations in seconds, from one as the pipeline file spells it.

    Raises:
        ConfigError: there is no such knob, or the pipeline file could not say so.
    """
    places = _places(steps)
    if name not in places:
        raise ConfigError(f"{name!r} is no knob; there are {', '.join(places)}")
    # Tasks import this module, and a knob is rarely turned.
    from pydantic import ValidationError

    from endmark.pipeline.steps import Join, Lookup

    at = places[name]
    model = Join if at.step == "join" else Lookup
    try:
        found = model.model_validate(_with(steps[at.step], at.path, value))
    except ValidationError as error:
        text = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise ConfigError(f"{name}: {text}") from error
    if isinstance(found, Join):
        found.policy()  # which refuses what the preset has no use for
    return as_number(attrgetter(".".join(at.path))(found))


@dataclass(frozen=True)
class _Place:
    """Where the file has a knob: in which step, and its path there. `usual` is its name among `KNOBS`."""

    step: str
    usual: str

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(self.usual.split(".")[1:])


def _places(steps: Mapping[str, Mapping[str, Any]]) -> dict[str, _Place]:
    """Of all knobs by their names; a lookup without a cache has none of it."""
    found = {}
    for step, said in steps.items():
        for usual in KNOBS:
            kind, _, field = usual.partition(".")
            if kind == step.partition(".")[0] and not (field.startswith("cache.") and not said["cache"]):
                found[f"{step}.{field}"] = _Place(step, usual)
    return found


def _with(said: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    first, *rest = path
    return {**said, first: _with(said[first], rest, value) if rest else value}


def _model(place: _Place) -> type[Lookup | Join | Cache]:
    from endmark.pipeline.steps import Cache, Join, Lookup

    if place.step == "join":
        return Join
    return Cache if len(place.path) > 1 else Lookup


def as_number(value: Any) -> Any:
    """A duration in seconds, anything else as it is."""
    return value.total_seconds() if isinstance(value, timedelta) else value
