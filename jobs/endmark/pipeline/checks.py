"""Checks that the parts of a pipeline fit together: its lookups, keys, groups, tables and topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.domain import Domain
from endmark.operators.stream_join.presets import PRESETS, Preset, Propagation
from endmark.pipeline.duration_words import in_words
from endmark.pipeline.fields import quoted, require_column, require_key_column, require_name
from endmark.pipeline.formats import FORMATS
from endmark.pipeline.group_checks import check_groups
from endmark.pipeline.record_parts import Origin
from endmark.pipeline.steps.aggregate import AggregateStep
from endmark.pipeline.tables import RESERVED, is_group_role, is_latest_role, require_layout
from endmark.pipeline.unions import require_alike
from endmark.pipeline.upserted_rows import require_replaceable
from endmark.pipeline.written_rows import require_written
from endmark.types import ColumnType, JoinType

if TYPE_CHECKING:
    from datetime import timedelta

    from endmark.pipeline.model import Pipeline
    from endmark.pipeline.publish import Publish
    from endmark.pipeline.stage import Stage
    from endmark.pipeline.steps.lookup import Lookup
    from endmark.pipeline.tables import Table


def require_sound(pipeline: Pipeline) -> None:
    """Refuse a pipeline whose parts do not fit together.

    Raises:
        ValueError: some parts do not fit. The error names the field.
    """
    _check_unions(pipeline)
    stages = pipeline.stages
    for stage in stages:
        _check_inputs(stage)
    for earlier in stages[:-1]:
        _check_derived(earlier)
    _check_topics(pipeline)
    _check_schemas(pipeline)
    for lookup in pipeline.lookups:
        _check_lookup(pipeline, lookup, pipeline.field_of(lookup))
    _check_relations(pipeline)
    for stage in stages:
        _check_key(stage)
        for stream in stage.streams:
            _check_duplicates(stage, stream)
    check_groups(pipeline)
    _check_tables(pipeline)
    _check_names(pipeline)
    _check_deletions(pipeline)


def _check_unions(pipeline: Pipeline) -> None:
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


def _check_topics(pipeline: Pipeline) -> None:
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


def _check_schemas(pipeline: Pipeline) -> None:
    for name, stream in pipeline.streams.items():
        if FORMATS[stream.format].schemas and stream.schema_file is None and pipeline.registry is None:
            raise ValueError(
                f"streams.{name}.format: its records need schemas; add the section registry with its "
                "url, or name a schema_file if the records have no id of a schema"
            )


def _check_deletions(pipeline: Pipeline) -> None:
    """Check that deletions find the columns that they name in a record's value."""
    for name, stream in pipeline.streams.items():
        for column in pipeline.deleted_on(name):
            part = stream.parts.get(column)
            if part is not None and part.origin is not Origin.VALUE:
                raise ValueError(
                    f"streams.{name}.taken_from.{column}: a deletion names this column by its value in "
                    f"`before`, but it is taken from {part}; take it from the value"
                )


def _check_inputs(stage: Stage) -> None:
    if stage.join is None:
        return
    if len(stage.inputs) > 2 and stage.join.type is not JoinType.INNER:
        raise ValueError(
            f"{stage.field}.type: only an inner join has more than two inputs; write inner, or leave "
            f"out {quoted(stage.inputs[2:])}"
        )
    # It raises for a field that the preset has no use for.
    stage.join.policy(field=stage.field)


def _check_derived(earlier: Stage) -> None:
    """Check that the results of a stage can be rows of the next one: each has an event time."""
    first, *others = earlier.inputs
    if earlier.join is None or first in earlier.present_inputs:
        return
    flipped = f", or left with {others[0]} first" if earlier.join.type is JoinType.RIGHT else ""
    raise ValueError(
        f"{earlier.field}.type: results of a {earlier.join.type} join may lack a row of {first}, whose event "
        f"time is theirs in the next step, as it is the first input; write inner, left or semi{flipped}"
    )


def _check_lookup(pipeline: Pipeline, lookup: Lookup, field: str) -> None:
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


def _check_relations(pipeline: Pipeline) -> None:
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


def _check_key(stage: Stage) -> None:
    field, key = stage.named_key
    for number in range(len(key)):
        _check_key_column(stage, number, field)
    for name in stage.streams:
        for member in stage.pipeline.flow.members_of(name):
            _check_promises(stage, member)


def _check_promises(stage: Stage, side: str) -> None:
    """Check what a stream promises against the key of its stage."""
    key, declared = stage.key, stage.pipeline.streams[side]
    whose = "key" if stage.join is None else "join key"
    missing = tuple(name for name in key if name not in declared.promised_on)
    if missing and len(missing) < len(key):
        raise ValueError(
            f"streams.{side}.punctuated_on: {quoted(missing)} of the {whose} {quoted(key)} is "
            "missing; name all of the key, or none of it"
        )
    if declared.unique and declared.clustered:
        raise ValueError(f"streams.{side}.clustered: unique keys are in clusters anyhow; leave it out")
    implied = {
        "ordered": tuple(declared.ordered),
        "unique": declared.unique,
        "clustered": declared.clustered,
    }
    for field, by in implied.items():
        if by and set(by) != set(key):
            raise ValueError(
                f"streams.{side}.{field}: {quoted(by)} is not the {whose} {quoted(key)}, so it "
                "closes no key; leave it out"
            )
    if declared.forget_keys_after is not None:
        _check_forgetting(stage, side, declared.forget_keys_after)


def _check_duplicates(stage: Stage, side: str) -> None:
    """Check that duplicates come to the same bucket, and that they are no violations."""
    pipeline, found = stage.pipeline, stage.pipeline.deduplicate_of(side)
    if found is None:
        return
    field, by = f"steps.{found[0]}.deduplicate", found[1].by
    for name in by:
        require_key_column(pipeline.stream_columns(side), name, f"{field}.by")
    if missing := tuple(name for name in stage.key if name not in by):
        origin, _ = stage.named_key
        raise ValueError(
            f"{field}.by: {quoted(missing)} of {origin} is missing, so duplicates could be in different "
            f"buckets; write by: [{', '.join([*by, *missing])}], as duplicates have the same key anyhow"
        )
    if pipeline.inputs[side].unique:
        raise ValueError(
            f"{field}: a second row of a key is a violation, since streams.{side}.unique promises that "
            "there is none; leave one of the two out"
        )


def _check_forgetting(stage: Stage, side: str, forget_after: timedelta) -> None:
    """Check that a row of a forgotten key is late, and that no result and no group waits for the key."""
    field, join, step = f"streams.{side}.forget_keys_after", stage.join, stage.field
    if not stage.promises.closes_keys(side):
        raise ValueError(f"{field}: {side} closes no key; leave it out")
    if join is None:
        return
    _check_stage_behind(stage, field)
    if stage.propagation is Propagation.CLOSED:
        raise ValueError(
            f"{field}: preset {join.preset} announces a key once all streams have closed it, so none may "
            f"be forgotten before; leave it out, or choose {step}.preset: {Preset.AUTO}"
        )
    for other in stage.inputs:
        if other != side and stage.preserved(other):
            raise ValueError(
                f"{field}: rows of {other} are results once {side} has closed their key, so it must not "
                f"be forgotten; leave it out, or choose another {step}.type"
            )
        window = stage.window_of(other) if PRESETS[join.preset].window else None
        if window is None:
            raise ValueError(
                f"{field}: rows of {other} would stay for ever once their key is forgotten; set {step}.window"
            )
        if other == side and forget_after < window:
            raise ValueError(
                f"{field}: {in_words(forget_after)} is less than the window of {side}, "
                f"{in_words(window)}, in which a key still has results; use the window or more"
            )


def _check_stage_behind(stage: Stage, field: str) -> None:
    """Check that no further stage remembers the keys that a stage forgets."""
    behind = next((each for each in stage.pipeline.stages if each.earlier is stage), None)
    if behind is not None and behind.same_key:
        join = stage.steps.join
        raise ValueError(
            f"{field}: rows of {join} go on into a stage on the same key, which remembers all keys that "
            f"{join} announces; leave it out, or join all streams on this key in {stage.field}, and look "
            "rows up in front of it"
        )


def _check_key_column(stage: Stage, number: int, field: str) -> None:
    """Check one column of the key of a stage, given its number in the key."""
    name, kinds = stage.key[number], dict[str, ColumnType]()
    for side in stage.inputs:
        if side in stage.pipeline.inputs:
            require_column(stage.pipeline.stream_columns(side), name, field)
        kinds[side] = stage.kinds_of(side)[number]
    first, kind = next(iter(kinds.items()))
    if odd := [side for side, other in kinds.items() if other != kind]:
        raise ValueError(
            f"{field}: column {name!r} is {kind} in stream {first}, but {kinds[odd[0]]} in {odd[0]}; "
            f"declare one type for {'both' if len(kinds) == 2 else 'all'}"
        )
    if ColumnType.DOUBLE in kinds.values():
        raise ValueError(
            f"{field}: column {name!r} is double, and equal doubles are a matter of rounding; declare it "
            "long, string or decimal(18,2) in each stream"
        )


def _check_names(pipeline: Pipeline) -> None:
    for field, columns in pipeline.outputs.column_names().items():
        seen: dict[str, str] = {}
        for name in columns:  # Spark and Delta ignore the case of letters in names
            if (other := seen.setdefault(name.lower(), name)) != name or columns.count(name) > 1:
                raise ValueError(
                    f"{field}: columns {other!r} and {name!r} are one to Spark and Delta; "
                    "rename a stream, a relation, a column or a measure"
                )


def _check_tables(pipeline: Pipeline) -> None:
    if not pipeline.tables and not pipeline.publish:
        raise ValueError(
            f"tables: no table has the rows of {pipeline.flow.last}; name one, such as "
            f"tables: {{{pipeline.flow.last}: {{}}}}"
        )
    written: dict[str, str] = {}
    for name in [*RESERVED, *pipeline.tables]:  # some file systems ignore the case of letters, too
        if (other := written.setdefault(name.lower(), name)) != name or (
            name in RESERVED and name in pipeline.tables
        ):
            raise ValueError(f"tables.{name}: {other!r} is another table's name too; rename one")
    roles: dict[str, str] = {}
    for name, table in pipeline.tables.items():
        role = pipeline.outputs.role_of(name, table)
        if (other := roles.setdefault(role, name)) != name:
            source, mode = table.source or name, pipeline.tables[other].mode
            raise ValueError(
                f"tables.{name}: {other} has the same rows of {source}; leave one out"
                if mode == table.mode
                else f"tables.{name}: {other} has the groups of {source} so far, too, by mode: {mode}; leave "
                "one of the two out, or write mode: append for the final groups"
            )
        _check_table(pipeline, name, table, role)
    for groups in pipeline.all_groups:
        if not (groups.is_final or groups.is_running):
            raise ValueError(
                f"steps.{groups.step}: no table or topic has its groups; add tables.{groups.step}: {{}}, or "
                "leave the step out"
            )


def _check_table(pipeline: Pipeline, name: str, table: Table, role: str) -> None:
    source, field = table.source or name, f"tables.{name}"
    if not is_group_role(role):
        require_written(pipeline, source, field)
    require_layout(table, pipeline.outputs.columns_of(role), field)
    if is_latest_role(role):
        require_replaceable(pipeline, source, table, field)
    elif table.key:
        raise ValueError(
            f"{field}.key: it is for mode: upsert of a stream, a row step or a lookup; leave it out"
        )
    if table.mode != "append":
        _check_partitions(pipeline, role, table, f"{field}.partition_by")


def _check_partitions(pipeline: Pipeline, role: str, table: Table, field: str) -> None:
    """Refuse partitions by which two keys of a table of newest rows or running groups would be one."""
    columns = pipeline.outputs.columns_of(role)
    of_nulls = {groups.running_role: groups.key for groups in (*pipeline.regrouped, *pipeline.rollups)}
    key = pipeline.outputs.key_of(role) if table.key else of_nulls.get(role, ())
    for name in table.partition_by:
        if name in key and columns[name].domain is Domain.STRING:
            raise ValueError(
                f"{field}: column {name!r} is a text of the key, and Delta reads an empty text there as "
                "null, which is another key; leave it out"
            )
