"""Knobs: fields of the pipeline file that may be turned while the job runs, by control records.

They are those that may change between any two batches, since no row in state depends on them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, get_args

from endmark.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endmark.pipeline import Pipeline
    from endmark.pipeline.steps import Join, Lookup


@dataclass(frozen=True)
class Knob:
    """A field that may be turned: what its values are and what turning it does, for people.

    All of them are turned while the job runs and keep the checkpoint.
    """

    kind: Literal["choice", "duration", "size", "number"]
    values: str
    effect: str


_FIELDS = {
    "lookup": {
        "strategy": Knob(
            "choice",
            "auto takes the cheapest by what each has cost",
            "How the relation is read: by pages, by lists of keys or all of it.",
        ),
        "time_per_batch": Knob(
            "duration",
            "such as 500ms or 2s; null: until all is answered",
            "How long a full batch reads the relation; rows that it leaves wait for the next.",
        ),
        "memory": Knob(
            "size",
            "such as 64MB; a number is bytes",
            "What rows may take that a batch leaves waiting, in all buckets; beyond it, the batch reads on.",
        ),
    },
    "join": {
        "purge_every": Knob(
            "number",
            "1 or more; presets that purge with each punctuation take 1 alone",
            "How many punctuations of a stream make a purge: more of them are less work and more state.",
        ),
        "memory": Knob(
            "size",
            "such as 256MB; a number is bytes; null: any number; presets that do not spill take null alone",
            "What rows of both streams may take, in all buckets; those beyond it meet later rows in a pause.",
        ),
    },
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
    return [f"{step}.{field}" for step in steps for field in _FIELDS[step.partition(".")[0]]]


def knob(name: str) -> Knob:
    """What there is to say of a knob."""
    step, field = _split(name)
    return _FIELDS[step.partition(".")[0]][field]


def choices(name: str) -> list[str]:
    """The values of a knob that has so few of them that they can be told."""
    step, field = _split(name)
    return list(get_args(_model(step).model_fields[field].annotation)) if knob(name).kind == "choice" else []


def default(name: str) -> Any:
    """The value of a knob where the pipeline file says nothing, as `turned` gives it."""
    step, field = _split(name)
    return as_number(_model(step).model_fields[field].default)


def filed(steps: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The value of each knob in the pipeline file, as `turned` gives them."""
    parts = [(name, *_split(name)) for name in knobs_of(steps)]
    return {name: steps[step][field] for name, step, field in parts}


def turned(steps: Mapping[str, Mapping[str, Any]], name: str, value: Any) -> Any:
    """The value of a knob as tasks take it, durations in seconds, from one as the pipeline file spells it.

    Raises:
        ConfigError: there is no such knob, or the pipeline file could not say so.
    """
    if name not in (known := knobs_of(steps)):
        raise ConfigError(f"{name!r} is no knob; there are {', '.join(known)}")
    # Tasks import this module, and a knob is rarely turned.
    from pydantic import ValidationError

    from endmark.pipeline.steps import Lookup

    step, field = _split(name)
    try:
        found = _model(step).model_validate({**steps[step], field: value})
    except ValidationError as error:
        text = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise ConfigError(f"{name}: {text}") from error
    if not isinstance(found, Lookup):
        found.policy()  # which refuses what the preset has no use for
    return as_number(getattr(found, field))


def _split(name: str) -> tuple[str, str]:
    step, _, field = name.rpartition(".")
    return step, field


def _model(step: str) -> type[Lookup | Join]:
    from endmark.pipeline.steps import Join, Lookup

    return Join if step == "join" else Lookup


def as_number(value: Any) -> Any:
    """A duration in seconds, anything else as it is."""
    return value.total_seconds() if isinstance(value, timedelta) else value
