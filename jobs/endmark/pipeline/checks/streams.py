"""Checks of streams: their topics, their schemas, their deletions and the unions of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.pipeline.checks.written_rows import require_written
from endmark.pipeline.formats import FORMATS
from endmark.pipeline.record_parts import Origin
from endmark.pipeline.steps.aggregate import AggregateStep
from endmark.pipeline.unions import require_alike

if TYPE_CHECKING:
    from endmark.pipeline.model import Pipeline
    from endmark.pipeline.publish import Publish


def check_unions(pipeline: Pipeline) -> None:
    """Check that the members of each union make one stream."""
    for union, members in pipeline.flow.unions.items():
        behind = pipeline.flow.behind_unions[union]
        for stream in members:
            found = pipeline.deduplicate_of(stream)
            if found is not None and found[0] not in behind:
                raise ValueError(
                    f"steps.{found[0]}.deduplicate: rows are deduplicated where they are joined, and there "
                    f"they are rows of {union}; let a row step behind {union} deduplicate them"
                )
        require_alike(
            union,
            {name: pipeline.streams[name] for name in members},
            {name: pipeline.row_columns((name, *path)[-1]) for name, path in members.items()},
        )


def check_topics(pipeline: Pipeline) -> None:
    """Check that each topic has one part in the pipeline: it is read, published to, or the control topic."""
    topics = [stream.topic for stream in pipeline.streams.values()]
    if twice := next((topic for topic in topics if topics.count(topic) > 1), None):
        raise ValueError(f"streams: topic {twice!r} is named twice")
    for step, publish in pipeline.publish.items():
        _check_published(pipeline, step, publish)
    published = [publish.topic for publish in pipeline.publish.values()]
    for step, publish in pipeline.publish.items():
        if publish.topic in topics:
            raise ValueError(
                f"publish.{step}.topic: {publish.topic!r} is read by a stream, which would get the job's own "
                "rows; name another topic"
            )
        if published.count(publish.topic) > 1:
            raise ValueError(
                f"publish.{step}.topic: {publish.topic!r} is named twice, and its rows would have different "
                "columns; name a topic for each step"
            )
    if pipeline.control_topic in [*topics, *published]:
        raise ValueError(
            f"control.topic: {pipeline.control_topic!r} is a topic of a stream or of publish; name another"
        )


def _check_published(pipeline: Pipeline, step: str, publish: Publish) -> None:
    if isinstance(pipeline.steps.get(step), AggregateStep):
        return
    require_written(pipeline, step, f"publish.{step}")
    if publish.mode != "append":
        raise ValueError(
            f"publish.{step}.mode: {publish.mode} is for the groups of an aggregate; rows of {step} never "
            "change, so leave it out"
        )


def check_schemas(pipeline: Pipeline) -> None:
    """Check that there are schemas for the streams whose records are written by them."""
    for name, stream in pipeline.streams.items():
        if FORMATS[stream.format].schemas and stream.schema_file is None and pipeline.registry is None:
            raise ValueError(
                f"streams.{name}.format: its records need schemas; add the section registry with its "
                "url, or name a schema_file if the records have no id of a schema"
            )


def check_deletions(pipeline: Pipeline) -> None:
    """Check that deletions find the columns that they name in a record's value."""
    for name, stream in pipeline.streams.items():
        for column in pipeline.deleted_on(name):
            part = stream.parts.get(column)
            if part is not None and part.origin is not Origin.VALUE:
                raise ValueError(
                    f"streams.{name}.taken_from.{column}: a deletion names this column by its value in "
                    f"`before`, but it is taken from {part}; take it from the value"
                )
