"""The key of an input that no join takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.pipeline.steps.aggregate import AggregateStep

if TYPE_CHECKING:
    from endmark.pipeline.stage import Stage


def key_alone(stage: Stage) -> tuple[str, tuple[str, ...]]:
    """Return the first field that gives one input alone a key, and the columns of this key."""
    pipeline, (name,) = stage.pipeline, stage.inputs
    stream = pipeline.inputs[name]
    rule = stream.closes.on if stream.closes else ()
    lookups = pipeline.lookups_of(name)[:1]
    by = tuple(column.name for lookup in lookups for column in pipeline.asked_by(lookup).key)
    deduplicated, values = _deduplicated_alone(stage, name)
    columns, there = pipeline.stream_columns(name), dict(stage.columns.of(name))
    spreads = all(f"{name}_{column}" in there and not columns[column].nullable for column in by)
    fields = {
        **{f"steps.{each}.aggregate.by": _grouped_alone(stage, name, each) for each in pipeline.flow.groups},
        **{f"tables.{each}.key": table.key for each, table in pipeline.tables.items() if table.key},
        f"streams.{name}.unique": stream.unique,
        f"streams.{name}.clustered": stream.clustered,
        f"streams.{name}.ordered": tuple(stream.ordered),
        f"streams.{name}.closes.on": rule if stream.could_be_keys(rule) == rule else (),
        f"streams.{name}.punctuated_on": stream.could_be_keys(stream.punctuated_on),
        f"steps.{deduplicated}.deduplicate.by": values,
        # Nothing closes these. They only spread rows over buckets, each of which then reads its own part
        # of the relation. No row may lack the key, so a nullable column is none, nor one that is lost.
        **{f"{pipeline.field_of(lookup)}.key": by if spreads else () for lookup in lookups},
        f"streams.{name}.event_time.column": (stream.event_time.column,),
    }
    return next((field, columns) for field, columns in fields.items() if columns)


def _grouped_alone(stage: Stage, stream: str, step: str) -> tuple[str, ...]:
    """Return the columns by which an aggregate groups a stream alone; none if not all are its own."""
    pipeline, aggregate = stage.pipeline, stage.pipeline.steps[step]
    by = aggregate.aggregate.by if isinstance(aggregate, AggregateStep) else ()
    own = tuple(name.removeprefix(f"{stream}.") for name in by)
    others = [name for name in by if name not in pipeline.stream_columns(stream)]
    derived = {f"{stream}_{name}" for name in own}
    if any(derived & each.derived.keys() for each in stage.columns.looked_up_steps(stream).values()):
        return ()
    known = {column for relation in pipeline.relations.values() for column in relation.columns}
    if any(name.partition(".")[0] in pipeline.relations or name in known for name in others):
        return ()
    return own


def _deduplicated_alone(stage: Stage, stream: str) -> tuple[str, tuple[str, ...]]:
    """Return the step that deduplicates a stream, and those columns of its `by` that are never null."""
    found = stage.pipeline.deduplicate_of(stream)
    if found is None:
        return "", ()
    (step, declared), columns = found, stage.pipeline.stream_columns(stream)
    return step, tuple(name for name in declared.by if name in columns and not columns[name].nullable)


def could_be_key_alone(stage: Stage, stream: str) -> dict[str, str]:
    """Return the columns that may be the key of a stream alone, each with the field that names it."""
    declared = stage.pipeline.inputs[stream]
    step, by = _deduplicated_alone(stage, stream)
    fields = {
        f"streams.{stream}.unique": declared.unique,
        f"streams.{stream}.clustered": declared.clustered,
        f"streams.{stream}.ordered": tuple(declared.ordered),
        f"steps.{step}.deduplicate.by": by,
    }
    return {f"{stream}_{name}": f"in {field}" for field, names in fields.items() for name in names}
