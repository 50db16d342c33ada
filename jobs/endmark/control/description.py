"""The description of a pipeline for the sidecar, which has no pipeline file and none of its secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel

from endmark.control.knobs import Steps, lookup_steps, steps_of

if TYPE_CHECKING:
    from endmark.pipeline import Pipeline


class LookupDescription(BaseModel):
    """The description of one lookup; `step` is its name in knobs."""

    step: str
    stream: str
    relation: str


class Description(BaseModel):
    """A pipeline's parts by their names.

    `topics` has the topic of each stream, the left one first; `tables` the directory of each table in the
    warehouse, that of running groups only if it is written. `steps` is what the pipeline file says of the
    steps with knobs, durations in seconds.
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
    tables = pipeline.tables.model_dump(exclude=None if pipeline.running_columns() else {"running"})
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
