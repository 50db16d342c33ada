"""The description of a pipeline for the sidecar, which has neither the pipeline file nor its secrets."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel

from endmark.control.questions.askable_keys import keys_of
from endmark.control.tuning.knobs import Steps, as_number, steps_of
from endmark.pipeline.boundedness import states
from endmark.pipeline.tables import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from endmark.kafka.gaps import Gap
    from endmark.pipeline import Pipeline
    from endmark.pipeline.steps.step import Step


class StepDescription(BaseModel):
    """One step: its name, and the streams or steps whose rows it takes.

    `relation` is the one that a lookup asks; `None` for other steps.
    """

    name: str
    kind: Literal["rows", "lookup", "union", "join", "aggregate"]
    inputs: list[str]
    relation: str | None


class SinkDescription(BaseModel):
    """A Delta table or an output topic, and the kind of its rows.

    `name` is that of the topic, or of the table's directory within the warehouse. `step` is the stream or
    step whose rows it has. `rows` is `step` if this is in front of the results, and `latest` if a table has
    the newest row of each key. An aggregate has `groups`, the final ones, or `running` ones, so far. Tables
    that each pipeline writes come with the results.
    """

    name: str
    rows: Literal[
        "results",
        "groups",
        "running",
        "step",
        "latest",
        "dead_letters",
        "violations",
        "punctuations",
    ]
    step: str


class LookupDescription(BaseModel):
    """The description of one lookup; `field` begins the names of its knobs."""

    field: str
    stream: str
    relation: str


class StateDescription(BaseModel):
    """The state that is kept for one input, and its bound by the pipeline file.

    `input` is a stream, or `groups`; `holds` is `rows`, `closed keys`, `seen values` or `groups`. `bound`
    says in words what frees it, or why nothing does.
    """

    name: str
    input: str
    holds: str
    bound: str


class GapDescription(BaseModel):
    """The offsets of one partition that the job has skipped, since Kafka had dropped their records.

    They are those from `first` to `end`, without `end`.
    """

    topic: str
    partition: int
    first: int
    end: int


class Description(BaseModel):
    """The parts of a pipeline by name.

    `topics` has the topic of each stream, in the order of the columns of results. `whole_topics` are those
    whose streams take columns from keys, headers or timestamps. `binary_topics` are those whose records are
    no text. `steps` has the steps as the file has them, `tables` those that the job writes, and `published`
    the topics that it sends rows to. `keys` has the types of the key columns of each stage. `fields`
    has the parts of the file with knobs, by their fields, with durations in seconds. `join` is the field of
    the one join; it is `None` without one, and with several. `windows` has the seconds for which a row of
    each stream or union stays joinable, or `None` for ever. `states` has each state with its bound. `gaps`
    has the offsets that the job has skipped since its checkpoint was made.
    """

    topics: dict[str, str]
    steps: list[StepDescription]
    tables: list[SinkDescription]
    published: list[SinkDescription]
    whole_topics: list[str]
    binary_topics: list[str]
    control_topic: str
    keys: list[dict[str, str]]
    fields: Steps
    lookups: list[LookupDescription]
    join: str | None
    windows: dict[str, float | None]
    states: list[StateDescription]
    gaps: list[GapDescription]


def describe(pipeline: Pipeline, gaps: Iterable[Gap] = ()) -> Description:
    """Describe a pipeline, without the URLs of relations, which may hold a password.

    Args:
        pipeline: the pipeline.
        gaps: the offsets that the job has skipped, in the order in which it has found them.
    """
    return Description(
        topics={name: stream.topic for name, stream in pipeline.read_streams.items()},
        steps=[_step(name, step) for name, step in pipeline.steps.items()],
        tables=[_table(pipeline, rows, name) for rows, name in pipeline.outputs.directories.items()],
        published=[_topic(pipeline, step, publish.topic) for step, publish in pipeline.publish.items()],
        whole_topics=pipeline.whole_topics,
        binary_topics=pipeline.binary_topics,
        control_topic=pipeline.control_topic,
        keys=[{name: str(kind) for name, kind in key.items()} for key in keys_of(pipeline)],
        fields=steps_of(pipeline),
        lookups=[
            LookupDescription(
                field=pipeline.field_of(each),
                stream=pipeline.stream_of(each.relation),
                relation=each.relation,
            )
            for each in pipeline.lookups
        ],
        join=None if pipeline.join is None or len(pipeline.stages) > 1 else pipeline.last_stage.field,
        windows={name: as_number(pipeline.window_of(name)) for name in pipeline.sides},
        states=[
            StateDescription(name=each.name, input=each.input, holds=each.holds, bound=each.bound)
            for each in states(pipeline)
        ],
        gaps=[GapDescription.model_validate(asdict(gap)) for gap in gaps],
    )


def _step(name: str, step: Step) -> StepDescription:
    relation = step.lookup.relation if step.kind == "lookup" else None
    return StepDescription(name=name, kind=step.kind, inputs=list(step.inputs), relation=relation)


def _table(pipeline: Pipeline, rows: str, name: str) -> SinkDescription:
    table = pipeline.tables.get(name)
    step = pipeline.flow.results if table is None else table.source or name
    return SinkDescription.model_validate({"name": name, "rows": kind_of(rows), "step": step})


def _topic(pipeline: Pipeline, step: str, name: str) -> SinkDescription:
    rows = kind_of(pipeline.outputs.published_role(step))
    return SinkDescription.model_validate({"name": name, "rows": rows, "step": step})
