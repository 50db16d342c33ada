"""Checks that the parts of a pipeline fit together: its lookups, keys, groups, tables and topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.domain import Domain
from endmark.operators.stream_join.presets import PRESETS, Preset, Propagation
from endmark.pipeline.asked import asked
from endmark.pipeline.duration_words import in_words
from endmark.pipeline.fields import require_column, require_key_column, require_name
from endmark.pipeline.formats import FORMATS
from endmark.pipeline.measures import FUNCTIONS
from endmark.pipeline.record_parts import Origin
from endmark.pipeline.tables import GROUP_ROLES, RESERVED, is_latest_role, require_layout
from endmark.pipeline.unions import require_alike
from endmark.pipeline.upserted_rows import require_replaceable
from endmark.pipeline.written_steps import require_written
from endmark.types import ColumnType, JoinType

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from endmark.pipeline.model import Pipeline
    from endmark.pipeline.stage import Stage
    from endmark.pipeline.steps import Aggregate, Lookup, Measure
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
        _check_lookup(pipeline, lookup, pipeline.place_of(lookup))
    _check_relations(pipeline)
    for stage in stages:
        _check_key(stage)
        for stream in stage.streams:
            _check_duplicates(stage, stream)
    if pipeline.aggregate is not None:
        _check_aggregate(pipeline, pipeline.aggregate, f"steps.{pipeline.flow.aggregate}.aggregate")
    if pipeline.rollup is not None:
        pipeline.rollup.check()
    _check_tables(pipeline)
    _check_names(pipeline)
    _check_deletions(pipeline)


def _check_unions(pipeline: Pipeline) -> None:
    """Check that the members of each union make one stream."""
    for union, members in pipeline.flow.unions.items():
        for stream in members:
            if (found := pipeline.deduplicate_of(stream)) is not None:
                raise ValueError(
                    f"steps.{found[0]}.deduplicate: rows are deduplicated where they are joined, and there "
                    f"they are rows of {union}; leave it out, or deduplicate in a pipeline of {stream} alone"
                )
        require_alike(
            union,
            {name: pipeline.streams[name] for name in members},
            {name: pipeline.stream_columns(name) for name in members},
        )


def _check_topics(pipeline: Pipeline) -> None:
    topics = [stream.topic for stream in pipeline.streams.values()]
    if twice := next((topic for topic in topics if topics.count(topic) > 1), None):
        raise ValueError(f"streams: topic {twice!r} is named twice")
    for step in pipeline.publish:
        require_written(pipeline, step, f"publish.{step}")
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
            f"{stage.place}.type: only an inner join has more than two inputs; write inner, or leave "
            f"out {_listed(stage.inputs[2:])}"
        )
    # It raises for a field that the preset has no use for.
    stage.join.policy(field=stage.place)


def _check_derived(earlier: Stage) -> None:
    """Check that the results of a stage can be rows of the next one: each has an event time."""
    first, *others = earlier.inputs
    if earlier.join is None or first in earlier.present_inputs:
        return
    flipped = f", or left with {others[0]} first" if earlier.join.type is JoinType.RIGHT else ""
    raise ValueError(
        f"{earlier.place}.type: results of a {earlier.join.type} join may lack a row of {first}, whose event "
        f"time is theirs in the next step, as it is the first input; write inner, left or semi{flipped}"
    )


def _check_lookup(pipeline: Pipeline, lookup: Lookup, field: str) -> None:
    require_name(pipeline.relations, lookup.relation, f"{field}.relation", "relations")
    relation = pipeline.relations[lookup.relation]
    if len(lookup.key) != len(relation.key):
        raise ValueError(
            f"{field}.key: {_listed(lookup.key)} must have a column for each of "
            f"relations.{lookup.relation}.key: {_listed(relation.key)}"
        )
    asked(pipeline, lookup)  # raises for a column that rows do not have
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
                f"{pipeline.place_of(again)}.relation: {name!r} is looked up twice; declare it once more "
                "under another name"
            )


def _check_key(stage: Stage) -> None:
    field, key = stage.key_place
    for place in range(len(key)):
        _check_key_column(stage, place, field)
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
            f"streams.{side}.punctuated_on: {_listed(missing)} of the {whose} {_listed(key)} is "
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
        if by and (set(by) != set(key) or (field == "ordered" and len(key) > 1)):
            raise ValueError(
                f"streams.{side}.{field}: {_listed(by)} is not the {whose} {_listed(key)}, so it "
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
        origin, _ = stage.key_place
        raise ValueError(
            f"{field}.by: {_listed(missing)} of {origin} is missing, so duplicates could be in different "
            f"buckets; write by: [{', '.join([*by, *missing])}], as duplicates have the same key anyhow"
        )
    if pipeline.inputs[side].unique:
        raise ValueError(
            f"{field}: a second row of a key is a violation, since streams.{side}.unique promises that "
            "there is none; leave one of the two out"
        )


def _check_forgetting(stage: Stage, side: str, forget_after: timedelta) -> None:
    """Check that a row of a forgotten key is late, and that no result and no group waits for the key."""
    field, join, step = f"streams.{side}.forget_keys_after", stage.join, stage.place
    if not stage.closes_keys(side):
        raise ValueError(f"{field}: {side} closes no key; leave it out")
    if join is None:
        return
    if PRESETS[join.preset].propagate is Propagation.CLOSED:
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


def _check_key_column(stage: Stage, place: int, field: str) -> None:
    """Check one column of the key of a stage, given its place in the key."""
    name, kinds = stage.key[place], dict[str, ColumnType]()
    for side in stage.inputs:
        if side in stage.pipeline.inputs:
            require_column(stage.pipeline.stream_columns(side), name, field)
        kinds[side] = stage.kinds_of(side)[place]
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


def _check_aggregate(pipeline: Pipeline, aggregate: Aggregate, field: str) -> None:
    for reference in aggregate.by:
        _check_group_column(pipeline, reference, f"{field}.by")
    if len(pipeline.group_key) < len(aggregate.by):
        raise ValueError(f"{field}.by: {_listed(aggregate.by)} name a column twice; leave one out")
    if pipeline.regroups:
        _check_regrouping(pipeline, aggregate, field)
    elif pipeline.needs_final_groups:
        _check_closing(pipeline, field)
    for name, measure in aggregate.measures.items():
        if measure.column is not None:
            _check_measure(pipeline, f"{field}.measures.{name}", measure, measure.column)


def _check_group_column(pipeline: Pipeline, reference: str, field: str) -> None:
    if reference in pipeline.key:  # which `_check_key` has checked
        return
    origin, column = _require_column(pipeline, reference, field)
    require_key_column(pipeline.origins[origin], column, field)


def _check_regrouping(pipeline: Pipeline, aggregate: Aggregate, field: str) -> None:
    """Check groups by other columns than the join key."""
    named = {column for origin, column in pipeline.group_origins() if origin not in pipeline.relations}
    if named >= set(pipeline.key) and _closes_keys(pipeline.last_stage):
        whose = "key" if pipeline.join is None else "join key"
        raise ValueError(
            f"{field}.by: {_listed(aggregate.by)} has more columns than the {whose} "
            f"{_listed(pipeline.key)}, or names the stream of one; name that key alone and without a stream, "
            "or leave a column of it out"
        )
    if pipeline.group_closers or pipeline.times_of(pipeline.group_equals) or not pipeline.needs_final_groups:
        return
    own = [column for origin, column in pipeline.group_origins() if origin in pipeline.streams]
    mends = [*_closing_mends(pipeline)[:1], *_by_time(pipeline, own)]
    if pipeline.flow.rollup is None:
        mends.append(
            f"write the groups so far: tables.{pipeline.flow.aggregate}: "
            f"{{from: {pipeline.flow.aggregate}, mode: upsert}}"
        )
    raise ValueError(
        f"{field}.by: no stream promises anything about {_listed(aggregate.by)} that holds for all "
        f"results, so no group would ever close; {', or '.join(mends) or 'leave a column out'}"
    )


def _closing_mends(pipeline: Pipeline) -> list[str]:
    """Say how a stream comes to close groups by other columns than the join key."""
    origins, mends = pipeline.group_origins(), list[str]()
    for stream, column in origins:
        # No pattern of another stream closes the groups of results without a row of this stream.
        alone = all(origin == stream for origin, _ in origins)
        if stream not in pipeline.streams or not (alone or stream in pipeline.present):
            continue
        declared = pipeline.streams[stream].punctuated_on
        parts = [] if column in declared else [_promised(pipeline, stream, [*declared, column])]
        behind = pipeline.stages[len(pipeline.stage_of(stream).before) :]
        parts += [_announcing(stage) for stage in behind if not stage.announces]
        mends.append(" and ".join(parts))
    return [mend for mend in mends if mend]


def _announcing(stage: Stage) -> str:
    """Say how a stage comes to announce patterns, given one whose preset does not."""
    preset = "" if stage.join is None else stage.join.preset
    return f"leave {stage.place}.preset out, since {preset} announces no pattern"


def _promised(pipeline: Pipeline, stream: str, columns: Sequence[str]) -> str:
    """Say how a stream comes to promise something about columns; `stream` may be `<name>`, for any one."""
    promise = f"set streams.{stream}.punctuated_on: [{', '.join(columns)}]"
    if derived := _derived(pipeline, columns):
        listed = ", ".join(derived)
        return f"let records have {listed}, since no punctuation restricts a derived column, and {promise}"
    return promise


def _derived(pipeline: Pipeline, columns: Sequence[str]) -> list[str]:
    """Return those of some columns that no record has."""
    sent = {column for declared in pipeline.streams.values() for column in declared.columns}
    return [column for column in columns if column not in sent]


def _by_time(pipeline: Pipeline, columns: Sequence[str]) -> list[str]:
    """Say how progress makes groups final, if some of their columns are derived."""
    if not _derived(pipeline, columns):
        return []
    how = "group by a time that date_trunc or time_bucket makes of the event time, in a row step in front of "
    return [f"{how}lookups, since progress makes such groups final"]


def _check_closing(pipeline: Pipeline, field: str) -> None:
    """Check that groups by the join key are closed."""
    if not _closes_keys(pipeline.last_stage) and not pipeline.times_of(pipeline.group_equals):
        earlier, mends = pipeline.last_stage.earlier, [_promised(pipeline, "<name>", pipeline.key)]
        mends += _by_time(pipeline, pipeline.key)
        of_last = ""
        if earlier is not None and not earlier.announces:
            mends, of_last = [*mends, _announcing(earlier)], "of the last join "
        raise ValueError(
            f"{field}.by: no stream {of_last}is punctuated on {_listed(pipeline.key)}, so no group would "
            f"ever close; {', or '.join(mends)}"
        )
    if pipeline.join is not None and PRESETS[pipeline.join.preset].propagate is Propagation.NEVER:
        able = [preset for preset, ability in PRESETS.items() if ability.propagate is not Propagation.NEVER]
        raise ValueError(
            f"{field}: preset {pipeline.join.preset} announces no key, so no group would ever close; "
            f"leave it out, or choose steps.{pipeline.flow.join}.preset: {', '.join(able)}"
        )


def _closes_keys(stage: Stage) -> bool:
    return any(map(stage.closes_keys, stage.inputs))


def _require_column(pipeline: Pipeline, reference: str, field: str) -> tuple[str, str]:
    """Return the origin and the name of a column of results, or refuse it."""
    try:
        origin, column = pipeline.resolved(reference)
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from error
    require_name(pipeline.origins, origin, field, "streams or relations")
    require_column(pipeline.origins[origin], column, field)
    if hiding := [stage for stage in pipeline.stages if origin in stage.hidden]:
        raise ValueError(
            f"{field}: {reference!r} is on the right of a semi join, whose results have the left "
            f"columns alone; {hiding[0].place}.type: inner keeps both"
        )
    return origin, column


def _check_measure(pipeline: Pipeline, field: str, measure: Measure, reference: str) -> None:
    origin, _ = _require_column(pipeline, reference, field)
    try:
        measure.kind(pipeline.type_of(reference))
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from error
    stage = next((stage for stage in pipeline.stages if stage.steps.join == origin), None)
    if (
        stage is not None
        and FUNCTIONS[measure.function].by_place
        and stage.inputs[0] not in stage.present_inputs
    ):
        raise ValueError(
            f"{field}: {measure.function} goes by the event time of {stage.inputs[0]}, which results of "
            f"{origin} may lack; write min or max, or another {stage.place}.type"
        )


def _check_names(pipeline: Pipeline) -> None:
    for role, columns in pipeline.table_columns().items():
        seen: dict[str, str] = {}
        for name in columns:  # Spark and Delta ignore the case of letters in names
            if (other := seen.setdefault(name.lower(), name)) != name or columns.count(name) > 1:
                raise ValueError(
                    f"tables.{pipeline.directories[role]}: columns {other!r} and {name!r} are one to Delta; "
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
        role = pipeline.role_of(name, table)
        if (other := roles.setdefault(role, name)) != name:
            raise ValueError(
                f"tables.{name}: {other} has the same rows of {table.source or name}; leave one out"
            )
        _check_table(pipeline, name, table, role)
    if (last := pipeline.flow.rollup or pipeline.flow.aggregate) is None:
        return
    if not set(GROUP_ROLES[-2:] if pipeline.flow.rollup else GROUP_ROLES) & roles.keys():
        raise ValueError(
            f"steps.{last}: no table has its groups; add tables.{last}: {{}}, or leave the step out"
        )


def _check_table(pipeline: Pipeline, name: str, table: Table, role: str) -> None:
    source, field = table.source or name, f"tables.{name}"
    if role not in GROUP_ROLES:
        require_written(pipeline, source, field)
    require_layout(table, pipeline.columns_of(role), field)
    if is_latest_role(role):
        require_replaceable(pipeline, source, table, field)
    elif table.key:
        raise ValueError(
            f"{field}.key: it is for mode: upsert of a stream, a row step or a lookup; leave it out"
        )
    if table.mode == "upsert" and (table.key or pipeline.regroups):
        _check_upserted(pipeline, role, table, f"{field}.partition_by")


def _check_upserted(pipeline: Pipeline, role: str, table: Table, field: str) -> None:
    columns = pipeline.columns_of(role)
    for name in table.partition_by:
        if name in pipeline.key_of(role) and columns[name].domain is Domain.STRING:
            raise ValueError(
                f"{field}: column {name!r} is a text of the key, and Delta reads an empty text there as "
                "null, which is another key; leave it out"
            )


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))
