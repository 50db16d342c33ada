"""Knobs: fields of the pipeline file that may be turned while the job runs, by control records.

They are those that may change between any two batches, since no row in state depends on them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from operator import attrgetter, getitem
from typing import TYPE_CHECKING, Any, get_args

from endmark.control.changes import CHANGES, Change, change_of, remark_of
from endmark.control.dials import DECIDING, KNOBS
from endmark.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endmark.pipeline import Pipeline
    from endmark.pipeline.fields import Model


# What the file says of each step that has knobs, by the step's name.
Steps = dict[str, dict[str, Any]]


def steps_of(pipeline: Pipeline) -> Steps:
    """Return the fields of all steps that have knobs, as JSON; durations are in seconds."""
    lookups = pipeline.lookups
    names = lookup_steps([each.relation for each in lookups])
    steps: dict[str, Model] = dict(zip(names, lookups, strict=True))
    steps |= {"join": pipeline.join, "batch": pipeline.batch}
    times = {name: pipeline.streams[name].event_time for name in pipeline.sides}
    steps |= {f"streams.{name}.event_time": time for name, time in times.items() if time.idle is not None}
    plain = {name: json.dumps(step.model_dump(), default=as_number) for name, step in steps.items()}
    return {name: json.loads(step) for name, step in plain.items()}


def lookup_steps(relations: Sequence[str]) -> list[str]:
    """Return the names of the lookups of these relations; with several, a name has its relation."""
    return ["lookup"] if len(relations) == 1 else [f"lookup.{relation}" for relation in relations]


def knobs_of(steps: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the names of all knobs."""
    return list(_places(steps))


def about_knob(steps: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    """Describe a knob: `kind` of its values, `choices`, `default`, `effect`, and what `applies` it."""
    place = _places(steps)[name]
    what, field = KNOBS[place.usual], _model(place).model_fields[place.path[-1]]
    return {
        "kind": what.kind,
        "values": what.values,
        "choices": list(get_args(field.annotation)) if what.kind == "choice" else [],
        "default": as_number(field.default),
        "effect": what.effect,
        "applies": str(CHANGES[place.usual]),
    }


def filed(steps: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the value of each knob in the pipeline file, as `turned` returns them."""
    return {name: reduce(getitem, at.path, steps[at.step]) for name, at in _places(steps).items()}


def turned(steps: Mapping[str, Mapping[str, Any]], name: str, value: Any) -> Any:
    """Return the value of a knob as tasks take it, with durations in seconds.

    Args:
        steps: the settings of the steps that have knobs.
        name: the name of the knob.
        value: the value as the pipeline file spells it.

    Raises:
        ConfigError: there is no such knob, or the pipeline file could not say so.
    """
    places = _places(steps)
    if name not in places:
        raise ConfigError(why_not(steps, name) or f"{name!r} is no knob; there are {', '.join(places)}")
    # Tasks import this module, and a knob is rarely turned.
    from pydantic import ValidationError

    from endmark.pipeline.steps import Join

    at = places[name]
    try:
        found = _step_model(at.step).model_validate(_with(steps[at.step], at.path, value))
    except ValidationError as error:
        text = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise ConfigError(f"{name}: {text}") from error
    if isinstance(found, Join):
        found.policy()  # which refuses what the preset has no use for
    to = as_number(attrgetter(".".join(at.path))(found))
    if to is None and at.usual in DECIDING:
        raise ConfigError(f"{name}: a job that has been told a time cannot be without; name a long one")
    return to


def stale(steps: Mapping[str, Mapping[str, Any]], name: str, value: Any) -> str | None:
    """Return the reason why a stored value is not allowed any more.

    It is `None` if the value is fine. It is `None`, too, if there is no such knob any more: it turns nothing
    then.

    Args:
        steps: the settings of the steps that have knobs.
        name: the name of the knob.
        value: the stored value.
    """
    if name not in _places(steps):
        return None
    try:
        turned(steps, name, value)
    except ConfigError as why:
        return str(why)
    return None


def why_not(steps: Mapping[str, Mapping[str, Any]], name: str) -> str | None:
    """Describe what to do with a field that is no knob; `None` if there is no such field."""
    path = _path(steps, name)
    if path is None:
        return None
    change = change_of(path)
    if change is Change.TURN:
        return f"{name}: the file says nothing of it, and to begin with it takes a new checkpoint"
    if change is Change.LIVE:  # of a cache
        return f"{name}: this lookup has no cache; give it one in the file, and start the job again"
    why = "" if (why := remark_of(path)) is None else f" ({why})"
    return f"{name} is no knob, since another value takes a {change}{why}: {change.advice}"


def _path(steps: Mapping[str, Mapping[str, Any]], name: str) -> tuple[str, ...] | None:
    """Return the path of a field, spelled as in a file that has one lookup."""
    for step, said in steps.items():
        if name.startswith(f"{step}."):
            path = name.removeprefix(f"{step}.").split(".")
            return (step.partition(".")[0], *path) if path[0] in said else None
    part, *below = name.split(".")
    return (part, *below) if part in CHANGES and part not in ("lookup", "join", "batch") else None


@dataclass(frozen=True)
class _Place:
    """The place of a knob in the pipeline file: its step and its path there.

    `usual` is its name among `KNOBS`.
    """

    step: str
    usual: str

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(self.usual.removeprefix(f"{_kind(self.step)}.").split("."))


def _places(steps: Mapping[str, Mapping[str, Any]]) -> dict[str, _Place]:
    """Return the places of all knobs by name. A lookup without a cache has no knobs of one."""
    found = {}
    for step, said in steps.items():
        for usual in KNOBS:
            kind = _kind(step)
            field = usual.removeprefix(f"{kind}.")
            if field != usual and not (field.startswith("cache.") and not said["cache"]):
                found[f"{step}.{field}"] = _Place(step, usual)
    return found


def _kind(step: str) -> str:
    """Return the kind of a step, without the name of its relation or stream."""
    kind, _, _ = step.partition(".")
    return "streams.*.event_time" if kind == "streams" else kind


def _with(said: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    first, *rest = path
    return {**said, first: _with(said[first], rest, value) if rest else value}


def _model(place: _Place) -> type[Model]:
    from endmark.pipeline.steps import Cache

    return Cache if len(place.path) > 1 else _step_model(place.step)


def _step_model(step: str) -> type[Model]:
    from endmark.pipeline.sources import EventTime
    from endmark.pipeline.steps import Batch, Join, Lookup

    models: dict[str, type[Model]] = {"lookup": Lookup, "join": Join, "batch": Batch}
    return models.get(_kind(step), EventTime)


def as_number(value: Any) -> Any:
    """Return a duration as seconds, and any other value as it is."""
    return value.total_seconds() if isinstance(value, timedelta) else value
