"""Checks of lookups and of the relations that they ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.pipeline.fields import quoted, require_column, require_name
from endmark.types import ColumnType

if TYPE_CHECKING:
    from endmark.pipeline.model import Pipeline
    from endmark.pipeline.steps.lookup import Lookup


def check_lookup(pipeline: Pipeline, lookup: Lookup, field: str) -> None:
    """Check that a relation can be asked as a lookup asks it. `field` is the field of the lookup."""
    require_name(pipeline.relations, lookup.relation, f"{field}.relation", "relations")
    relation = pipeline.relations[lookup.relation]
    if len(lookup.key) != len(relation.key):
        raise ValueError(
            f"{field}.key: {quoted(lookup.key)} must have a column for each of "
            f"relations.{lookup.relation}.key: {quoted(relation.key)}"
        )
    pipeline.asked_by(lookup)  # raises for a column that rows do not have
    given = pipeline.stream_of(lookup.relation)
    if given not in pipeline.inputs and lookup.fate == "dead_letter":
        raise ValueError(
            f"{field}.miss: a row of {given} is made of several records, so none of them is the dead letter; "
            "write nulls or drop, or look the rows up before their join"
        )
    if (as_of := lookup.as_of) is None:
        return
    require_column(relation.columns, as_of.relation, f"{field}.as_of.relation", ColumnType.TIMESTAMP)
    if as_of.relation in relation.key:
        raise ValueError(
            f"{field}.as_of.relation: {as_of.relation!r} is in relations.{lookup.relation}.key, so "
            "each version would have a key of its own; leave it out there"
        )
    if not lookup.unique:
        raise ValueError(
            f"{field}.cardinality: as_of picks one of a key's rows; leave cardinality out, or as_of"
        )


def check_relations(pipeline: Pipeline) -> None:
    """Check that each relation has one lookup: its name stands for the lookup's columns and knobs."""
    looked_up = [lookup.relation for lookup in pipeline.lookups]
    for name in pipeline.relations:
        if name in pipeline.inputs:
            raise ValueError(f"relations.{name}: a stream has this name, too; rename one of them")
        if any(name == stage.steps.join and stage.steps.behind for stage in pipeline.stages):
            raise ValueError(
                f"relations.{name}: a join has this name, too, and columns that row steps behind it derive; "
                "rename one of them"
            )
        if name not in looked_up:
            raise ValueError(f"relations.{name}: no lookup asks it; leave it out")
        if looked_up.count(name) > 1:
            again = [lookup for lookup in pipeline.lookups if lookup.relation == name][1]
            raise ValueError(
                f"{pipeline.field_of(again)}.relation: {name!r} is looked up twice; declare it once more "
                "under another name"
            )
