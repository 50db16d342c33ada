"""Holds what a pipeline publishes against what `verify` recomputes, which compares tables alone."""

from __future__ import annotations

from endmark.pipeline import Pipeline
from endmark.pipeline.tables import Table


def with_published_rows(pipeline: Pipeline) -> Pipeline:
    """The pipeline with a table of each kind of rows that it only publishes."""
    document = pipeline.model_dump(by_alias=True)
    for step, published in pipeline.publish.items():
        table = {"from": step, "mode": published.mode}
        role = pipeline.outputs.role_of(step, Table.model_validate(table))
        if role not in pipeline.outputs.tables_by_role:
            document["tables"][f"published_{step}"] = table
    return Pipeline.model_validate(document)
