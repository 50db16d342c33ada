"""Pipelines of one stream, made of those of two."""

from __future__ import annotations

from typing import Any

from endmark.pipeline import Pipeline


def alone(pipeline: Pipeline, stream: str) -> Pipeline:
    """The pipeline with one of its streams, and that stream's lookups and measures.

    It has no groups if the stream closes no key. Then its key may be another one than that by which its
    records are partitioned.
    """
    declared: dict[str, Any] = pipeline.streams[stream].model_dump()
    lookups = pipeline.lookups_of(stream)
    relations = {lookup.relation: pipeline.relations[lookup.relation] for lookup in lookups}
    document: dict[str, Any] = {
        **pipeline.model_dump(exclude={"join", "aggregate"}),
        "streams": {stream: declared},
        "relations": {name: relation.model_dump() for name, relation in relations.items()},
        "lookup": [lookup.model_dump() for lookup in lookups],
    }
    if pipeline.aggregate is not None and pipeline.closes_keys(stream):
        shown = {stream, *relations}
        measures: dict[str, Any] = {
            name: measure.model_dump()
            for name, measure in pipeline.aggregate.measures.items()
            if measure.column is None or measure.column.partition(".")[0] in shown
        }
        grouping = pipeline.aggregate.model_dump() | {"measures": measures or {"rows": "count"}}
        return Pipeline.model_validate(document | {"aggregate": grouping})
    if not set(pipeline.key) <= set(Pipeline.model_validate(document).key):
        declared["punctuation_scope"] = "topic"
    return Pipeline.model_validate(document)
