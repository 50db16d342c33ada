"""The description of a pipeline for the sidecar, which has neither the pipeline file nor its secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel

from endmark.control.knobs import Steps, lookup_steps, steps_of

if TYPE_CHECKING:
    from endmark.pipeline import Pipeline


class LookupDescription(BaseModel):
    """The description of one lookup; `step` begins the names of its knobs."""

    step: str
    stream: str
    relation: str


class Description(BaseModel):
    """The parts of a pipeline by name.

    `topics` has the topic of each stream, the left one first. `tables` has the directory of each table within
    the warehouse; the table of running groups is left out if the pipeline does not write it. `steps` has the
    fields of the steps with knobs, with durations in seconds; there is no `join` for a stream alone.
    """

    steps: Steps
    control_topic: str
    topics: dict[str, str]
    lookups: list[LookupDescription]
    aggregate: bool
    publish: str | None
    tables: dict[str, str]


def describe(pipeline: Pipeline) -> Description:
    """Describe a pipeline, without the URLs of relations, which may hold a password."""
    lookups = pipeline.lookups
    names = lookup_steps([each.relation for each in lookups])
    tables = pipeline.tables.directories
    if not pipeline.running_columns():
        del tables["running"]
    return Description(
        steps=steps_of(pipeline),
        control_topic=pipeline.control_topic,
        topics={name: pipeline.streams[name].topic for name in pipeline.sides},
        lookups=[
            LookupDescription(step=name, stream=each.stream, relation=each.relation)
            for name, each in zip(names, lookups, strict=True)
        ],
        aggregate=pipeline.aggregate is not None,
        publish=None if pipeline.publish is None else pipeline.publish.topic,
        tables=tables,
    )
