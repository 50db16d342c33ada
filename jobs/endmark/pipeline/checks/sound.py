"""Checks that the parts of a pipeline fit together, in an order in which each may rely on those before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.pipeline.checks.groups import check_groups
from endmark.pipeline.checks.joins import check_derived, check_inputs
from endmark.pipeline.checks.keys import check_duplicates, check_key
from endmark.pipeline.checks.lookups import check_lookup, check_relations
from endmark.pipeline.checks.streams import check_deletions, check_schemas, check_topics, check_unions
from endmark.pipeline.checks.tables import check_names, check_tables

if TYPE_CHECKING:
    from endmark.pipeline.model import Pipeline


def require_sound(pipeline: Pipeline) -> None:
    """Refuse a pipeline whose parts do not fit together.

    Raises:
        ValueError: some parts do not fit. The error names the field.
    """
    check_unions(pipeline)
    stages = pipeline.stages
    for stage in stages:
        check_inputs(stage)
    for earlier in stages[:-1]:
        check_derived(earlier)
    check_topics(pipeline)
    check_schemas(pipeline)
    for lookup in pipeline.lookups:
        check_lookup(pipeline, lookup, pipeline.field_of(lookup))
    check_relations(pipeline)
    for stage in stages:
        check_key(stage)
        for stream in stage.streams:
            check_duplicates(stage, stream)
    check_groups(pipeline)
    check_tables(pipeline)
    check_names(pipeline)
    check_deletions(pipeline)
