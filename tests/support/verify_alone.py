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
    shown = {stream, *(lookup.relation for lookup in pipeline.lookups_of(stream))}
    names = pipeline.flow.paths[stream]
    steps: dict[str, Any] = {name: pipeline.steps[name].model_dump() for name in names}
    document: dict[str, Any] = {
        **pipeline.model_dump(),
        "streams": {stream: declared},
        "relations": {
            name: relation.model_dump() for name, relation in pipeline.relations.items() if name in shown
        },
        "steps": steps,
        "tables": {"results": {"from": (stream, *names)[-1]}},
    }
    if pipeline.groups and pipeline.closes_keys(stream):
        measures: dict[str, Any] = {
            name: measure.model_dump()
            for name, measure in pipeline.groups[0].aggregate.measures.items()
            if measure.column is None or measure.column.partition(".")[0] in shown
        }
        grouping = pipeline.groups[0].aggregate.model_dump() | {"measures": measures or {"rows": "count"}}
        steps["by_key"] = {"from": (stream, *names)[-1], "aggregate": grouping}
        document["tables"] |= {
            name: table.model_dump() | {"from": "by_key"}
            for name, table in pipeline.tables.items()
            if name != "results"
        }
        return Pipeline.model_validate(document)
    if not set(pipeline.key) <= set(Pipeline.model_validate(document).key):
        declared["punctuation_scope"] = "topic"
    return Pipeline.model_validate(document)
