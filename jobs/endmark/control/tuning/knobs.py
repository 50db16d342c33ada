"""Knobs: fields of the pipeline file that control records may change while the job runs.

A knob may change between any two batches, since no row in state depends on its value.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from operator import attrgetter, getitem
from typing import TYPE_CHECKING, Any, get_args

from endmark.errors import ConfigError
from endmark.operators.lookup.strategies import require_readable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic.fields import FieldInfo

    from endmark.pipeline import Pipeline
    from endmark.pipeline.change_rules import Knob
    from endmark.pipeline.fields import Model


# The fields of each part of the file that has knobs, by the name of the part, such as `steps.known.lookup`.
Steps = dict[str, dict[str, Any]]


def steps_of(pipeline: Pipeline) -> Steps:
    """Return the fields of all steps that have knobs, as JSON values; durations are in seconds."""
    steps: dict[str, Model] = {pipeline.field_of(lookup): lookup for lookup in pipeline.lookups}
    steps |= {stage.field: stage.join for stage in pipeline.stages if stage.join is not None}
    steps["batch"] = pipeline.batch
    times = {name: stream.event_time for name, stream in pipeline.streams.items()}
    steps |= {f"streams.{name}.event_time": time for name, time in times.items() if time.idle is not None}
    plain = {name: json.dumps(step.model_dump(), default=as_number) for name, step in steps.items()}
    return {name: json.loads(step) for name, step in plain.items()}


def knobs_of(steps: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the names of all knobs."""
    return list(_knob_fields(steps))


def about_knob(steps: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    """Describe a knob: the `kind` of its values, `choices`, `default`, `effect`, and when it `applies`."""
    at = _knob_fields(steps)[name]
    knob = at.knob
    return {
        "kind": knob.kind,
        "values": knob.values,
        "choices": list(get_args(at.info.annotation)) if knob.kind == "choice" else [],
        "default": as_number(at.info.default),
        "effect": knob.effect,
        "applies": str(knob.change),
    }


def filed(steps: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the value of each knob in the pipeline file; durations are in seconds."""
    return {name: reduce(getitem, at.within, steps[at.step]) for name, at in _knob_fields(steps).items()}


def turned(steps: Mapping[str, Mapping[str, Any]], name: str, value: Any) -> Any:
    """Return the value of a knob in the form that tasks take: a duration becomes seconds.

    Args:
        steps: the fields of the steps that have knobs.
        name: the name of the knob.
        value: the value as the pipeline file spells it.

    Raises:
        ConfigError: no knob has this name, or the pipeline file may not have this value.
    """
    knobs = _knob_fields(steps)
    if name not in knobs:
        raise ConfigError(why_not(steps, name) or f"{name!r} is no knob; there are {', '.join(knobs)}")
    # Tasks import this module, and a knob is rarely turned.
    from pydantic import ValidationError

    from endmark.pipeline.change_rules import Change
    from endmark.pipeline.steps.join import JoinStep

    at = knobs[name]
    try:
        found = at.model.model_validate(_with(steps[at.step], at.within, value))
    except ValidationError as error:
        text = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise ConfigError(f"{name}: {text}") from error
    if isinstance(found, JoinStep):
        found.policy(field=at.step)  # it refuses a value that the preset does not use
    to = as_number(attrgetter(".".join(at.within))(found))
    if to is None and at.knob.change is Change.TURN:
        raise ConfigError(f"{name}: a job that has such a time cannot go on without; set a long one")
    return to


def stale(steps: Mapping[str, Mapping[str, Any]], name: str, value: Any) -> str | None:
    """Return why a stored value is not allowed any more; `None` if it is allowed.

    The result is also `None` if no knob has the name any more, since the value then changes nothing.

    Args:
        steps: the fields of the steps that have knobs.
        name: the name of the knob.
        value: the stored value.
    """
    if name not in _knob_fields(steps):
        return None
    try:
        turned(steps, name, value)
    except ConfigError as why:
        return str(why)
    return None


def unreadable(unpaged: Mapping[str, str], name: str, value: Any) -> str | None:
    """Return why a relation cannot be read as a knob's value says; `None` if it can.

    The pipeline file allows the value, so its record is no dead letter. But only the database says whether a
    relation has pages, so the job ignores the value and says why.

    Args:
        unpaged: the reason why a lookup's relation has no pages, by the field of the lookup.
        name: the name of the knob.
        value: an allowed value of the knob.
    """
    part, _, field = name.rpartition(".")
    try:
        if field == "strategy":
            require_readable(name, value, unpaged.get(part))
    except ConfigError as why:
        return str(why)
    if field == "page_rows" and part in unpaged:
        return f"{name} would change nothing: {unpaged[part]}"
    return None


def why_not(steps: Mapping[str, Mapping[str, Any]], name: str) -> str | None:
    """Return how a field that is no knob can be changed; `None` if there is no such field."""
    from endmark.control.tuning.changes import rule_of
    from endmark.pipeline.change_rules import Change

    path = _path(steps, name)
    if path is None:
        return None
    rule = rule_of(path)
    if rule.change is Change.TURN:
        return f"{name}: the pipeline file does not set it, and adding it takes a new checkpoint"
    if rule.change is Change.LIVE:  # only a cache's knobs, of a lookup without a cache
        return f"{name}: this lookup has no cache; give it one in the file, and start the job again"
    return f"{name} is no knob, since {rule}: {rule.change.advice}"


def _path(steps: Mapping[str, Mapping[str, Any]], name: str) -> tuple[str, ...] | None:
    """Return the path of a field, with `*` for names of streams and steps; `None` without such a field."""
    from endmark.pipeline import Pipeline

    for step, settings in steps.items():
        if name.startswith(f"{step}."):
            path = name.removeprefix(f"{step}.").split(".")
            return (*_kind(step), *path) if path[0] in settings else None
    part, *below = name.split(".")
    is_other = part in Pipeline.model_fields and part not in ("steps", "batch")
    return (part, *below) if is_other else None


@dataclass(frozen=True)
class _KnobField:
    """The field of a knob in the pipeline file.

    Args:
        step: the name of the step that has the knob.
        model: the model of the step.
        within: the names that lead from the step to the knob.
        info: the knob's type and default.
        knob: the knob's values and effect in words.
    """

    step: str
    model: type[Model]
    within: tuple[str, ...]
    info: FieldInfo
    knob: Knob


def _knob_fields(steps: Mapping[str, Mapping[str, Any]]) -> dict[str, _KnobField]:
    """Return the fields of all knobs by name. A lookup without a cache has no knobs for a cache."""
    # Tasks import this module, and a knob is rarely turned.
    from endmark.control.tuning.changes import FIELDS, KNOBS

    found = {}
    for step, settings in steps.items():
        kind = _kind(step)
        for path, knob in KNOBS.items():
            within = path[len(kind) :]
            is_own = path[: len(kind)] == kind and within[0] in settings
            if is_own and reduce(getitem, within[:-1], settings):
                model = FIELDS[*kind, within[0]].part
                found[".".join((step, *within))] = _KnobField(step, model, within, FIELDS[path].info, knob)
    return found


def _kind(step: str) -> tuple[str, ...]:
    """Return the path of a part of the file; `*` stands for the name of a stream or step."""
    kind, *names = step.split(".")
    return (kind, "*", *names[1:]) if names else (kind,)


def _with(settings: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    first, *rest = path
    return {**settings, first: _with(settings[first], rest, value) if rest else value}


def as_number(value: Any) -> Any:
    """Return a duration as seconds, and any other value as it is."""
    return value.total_seconds() if isinstance(value, timedelta) else value
