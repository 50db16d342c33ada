"""The description of a pipeline for the sidecar, which has neither the pipeline file nor its secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel

from endmark.control.knobs import Steps, as_number, steps_of

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
    the warehouse by the kind of its rows, as far as the pipeline writes them. `steps` has the fields of the
    steps with knobs, with durations in seconds. `join` begins the names of the join's knobs; it is `None` for
    a stream alone. `windows` has the seconds for which a row of each stream stays joinable, or `None` for
    ever.
    """

    steps: Steps
    control_topic: str
    topics: dict[str, str]
    lookups: list[LookupDescription]
    join: str | None
    windows: list[float | None]
    aggregate: bool
    publish: str | None
    tables: dict[str, str]


def describe(pipeline: Pipeline) -> Description:
    """Describe a pipeline, without the URLs of relations, which may hold a password."""
    return Description(
        steps=steps_of(pipeline),
        control_topic=pipeline.control_topic,
        topics={name: pipeline.streams[name].topic for name in pipeline.sides},
        lookups=[
            LookupDescription(
                step=pipeline.place_of(each), stream=pipeline.stream_of(each.relation), relation=each.relation
            )
            for each in pipeline.lookups
        ],
        join=None if pipeline.join is None else f"steps.{pipeline.flow.join}",
        windows=[as_number(pipeline.window_of(name)) for name in pipeline.sides],
        aggregate=pipeline.aggregate is not None,
        publish=pipeline.output_topic,
        tables=pipeline.directories,
    )
