"""Knobs: fields of the pipeline file that may be turned while the job runs, by control records.

They are those that may change between any two batches, since no row in state depends on them.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from endmark.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endmark.pipeline import Pipeline

_FIELDS = {"lookup": ("strategy", "time_per_batch"), "join": ("purge_every",)}

# What the file says of each step that has knobs, by the step's name.
Steps = dict[str, dict[str, Any]]


def steps_of(pipeline: Pipeline) -> Steps:
    """What the pipeline file says of the steps that have knobs, as plain values."""
    lookups = pipeline.lookups
    names = lookup_steps([each.relation for each in lookups])
    steps = {name: each.model_dump() for name, each in zip(names, lookups, strict=True)}
    return steps | {"join": pipeline.join.model_dump()}


def lookup_steps(relations: Sequence[str]) -> list[str]:
    """What the lookups of these relations are called: with that of the relation, where there are several."""
    return ["lookup"] if len(relations) == 1 else [f"lookup.{relation}" for relation in relations]


def knobs_of(steps: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The names of all knobs."""
    return [f"{step}.{field}" for step in steps for field in _FIELDS[step.partition(".")[0]]]


def filed(pipeline: Pipeline) -> dict[str, Any]:
    """The value of each knob in the pipeline file, as `turned` gives them."""
    steps = steps_of(pipeline)
    parts = [(name, *name.rsplit(".", 1)) for name in knobs_of(steps)]
    return {name: as_number(steps[step][field]) for name, step, field in parts}


def turned(steps: Mapping[str, Mapping[str, Any]], name: str, value: Any) -> Any:
    """The value of a knob as tasks take it, durations in seconds, from one as the pipeline file spells it.

    Raises:
        ConfigError: there is no such knob, or the pipeline file could not say so.
    """
    if name not in (known := knobs_of(steps)):
        raise ConfigError(f"{name!r} is no knob; there are {', '.join(known)}")
    # Tasks import this module, and a knob is rarely turned.
    from pydantic import ValidationError

    from endmark.pipeline.steps import Join, Lookup

    step, field = name.rsplit(".", 1)
    models: dict[str, type[Join | Lookup]] = {"join": Join, "lookup": Lookup}
    try:
        found = models[step.partition(".")[0]].model_validate({**steps[step], field: value})
    except ValidationError as error:
        text = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise ConfigError(f"{name}: {text}") from error
    if isinstance(found, Join):
        found.policy()  # which refuses what the preset has no use for
    return as_number(getattr(found, field))


def as_number(value: Any) -> Any:
    """A duration in seconds, anything else as it is."""
    return value.total_seconds() if isinstance(value, timedelta) else value
