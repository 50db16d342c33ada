"""Pipelines with other fields of a step, whether or not a file could have them."""

from __future__ import annotations

from typing import Any

from endmark.pipeline import Pipeline
from endmark.pipeline.steps.lookup import LookupStep


def with_step(pipeline: Pipeline, name: str, **fields: Any) -> Pipeline:
    """Return the pipeline with other fields of a step; those of a lookup step are of its lookup."""
    step = pipeline.steps[name]
    if isinstance(step, LookupStep):
        fields = {"lookup": step.lookup.model_copy(update=fields)}
    return pipeline.model_copy(update={"steps": pipeline.steps | {name: step.model_copy(update=fields)}})
