"""Checks aggregates: their columns, their measures, and that their groups can be final."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from endmark.operators.stream_join.presets import PRESETS, Propagation
from endmark.pipeline.fields import quoted, require_column, require_key_column, require_name
from endmark.pipeline.measures import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.pipeline.groups import Groups, ResultGroups
    from endmark.pipeline.model import Pipeline
    from endmark.pipeline.rollup import Rollup
    from endmark.pipeline.stage import Stage
    from endmark.pipeline.steps.aggregate import Measure


def check_groups(pipeline: Pipeline) -> None:
    """Check the columns and measures of all aggregates, and that their groups can be final.

    Raises:
        ValueError: a column does not fit, or no group would ever be final and no table has the groups so far.
    """
    for groups in pipeline.groups:
        _check_groups_of_results(groups)
    for rollup in pipeline.rollups:
        _check_rollup(rollup)


def _check_groups_of_results(groups: ResultGroups) -> None:
    pipeline, aggregate, field = groups.pipeline, groups.aggregate, groups.field
    for reference in aggregate.by:
        _check_group_column(pipeline, reference, f"{field}.by")
    if len(groups.key) < len(aggregate.by):
        raise ValueError(f"{field}.by: {quoted(aggregate.by)} name a column twice; leave one out")
    if groups.regroups:
        _check_regrouping(groups)
    elif groups.needs_final:
        _check_closing(groups)
    for name, measure in aggregate.measures.items():
        if measure.column is not None:
            _check_measure(pipeline, f"{field}.measures.{name}", measure, measure.column)


def _check_group_column(pipeline: Pipeline, reference: str, field: str) -> None:
    if reference in pipeline.key:  # which `_check_key` has checked
        return
    origin, column = _require_column(pipeline, reference, field)
    require_key_column(pipeline.references.origins[origin], column, field)


def _check_regrouping(groups: ResultGroups) -> None:
    """Check groups by other columns than the join key."""
    pipeline, by, field = groups.pipeline, groups.aggregate.by, groups.field
    named = {column for origin, column in groups.origins() if origin not in pipeline.relations}
    if named >= set(pipeline.key) and _closes_keys(pipeline.last_stage):
        whose = "key" if pipeline.join is None else "join key"
        raise ValueError(
            f"{field}.by: {quoted(by)} has more columns than the {whose} "
            f"{quoted(pipeline.key)}, or names the stream of one; name that key alone and without a stream, "
            "and take other columns by a measure such as `first`, or leave a column of the key out"
        )
    if groups.closers or groups.times or not groups.needs_final:
        return
    own = [column for origin, column in groups.origins() if origin in pipeline.inputs]
    mends = [*_closing_mends(groups)[:1], *_by_time(groups, own), *_so_far(groups)]
    raise ValueError(
        f"{field}.by: no stream promises anything about {quoted(by)} that holds for all "
        f"results, so no group would ever close; {', or '.join(mends) or 'leave a column out'}"
    )


def _closing_mends(groups: ResultGroups) -> list[str]:
    """Say how a stream comes to close groups by other columns than the join key."""
    pipeline, origins, mends = groups.pipeline, groups.origins(), list[str]()
    for stream, column in origins:
        # No pattern of another stream closes the groups of results without a row of this stream.
        alone = all(origin == stream for origin, _ in origins)
        if stream not in pipeline.inputs or not (alone or stream in pipeline.present):
            continue
        wanted = defaultdict[tuple[str, ...], list[str]](list)
        for name in pipeline.flow.members_of(stream):
            declared = pipeline.streams[name].punctuated_on
            if column not in declared:
                wanted[*declared, column].append(name)
        parts = [_promised(pipeline, names, columns) for columns, names in wanted.items()]
        behind = pipeline.stages[len(pipeline.stage_of(stream).before) :]
        parts += [_announcing(stage) for stage in behind if not stage.announces]
        mends.append(" and ".join(parts))
    return [mend for mend in mends if mend]


def _announcing(stage: Stage) -> str:
    """Say how a stage comes to announce patterns, given one whose preset does not."""
    preset = "" if stage.join is None else stage.join.preset
    return f"leave {stage.field}.preset out, since {preset} announces no pattern"


def _promised(pipeline: Pipeline, streams: Sequence[str], columns: Sequence[str]) -> str:
    """Say how streams come to promise something about columns; a stream `<name>` stands for any one."""
    fields = " and ".join(f"streams.{stream}.punctuated_on" for stream in streams)
    promise = f"set {fields}: [{', '.join(columns)}]"
    if derived := _derived(pipeline, columns):
        listed = ", ".join(derived)
        return f"let records have {listed}, since no punctuation restricts a derived column, and {promise}"
    return promise


def _derived(pipeline: Pipeline, columns: Sequence[str]) -> list[str]:
    """Return those of some columns that no record has."""
    sent = {column for declared in pipeline.streams.values() for column in declared.columns}
    return [column for column in columns if column not in sent]


def _by_time(groups: ResultGroups, columns: Sequence[str]) -> list[str]:
    """Say how progress makes groups final, if some of their columns are derived."""
    pipeline, last = groups.pipeline, groups.pipeline.last_stage
    timing = [last.timed_by(given) for given in last.shown_inputs]
    able = [each for each in timing if groups.is_in_all(each)]
    if not able or not _derived(pipeline, columns):
        return []
    how = f"group by a time that date_trunc or time_bucket makes of the event time of {' or '.join(able)}, "
    how += "in a row step in front of lookups, since progress makes such groups final"
    return [how if last.announces else f"{how} and {_announcing(last)}"]


def _so_far(groups: Groups) -> list[str]:
    """Say how a table has groups that never close, unless other groups take them."""
    so_far = f"write the groups so far: tables.{groups.step}: {{from: {groups.step}, mode: upsert}}"
    return [] if groups.takers else [so_far]


def _check_closing(groups: ResultGroups) -> None:
    """Check that groups by the join key are closed."""
    pipeline, field = groups.pipeline, groups.field
    if not _closes_keys(pipeline.last_stage) and not groups.times:
        earlier, mends = pipeline.last_stage.earlier, [_promised(pipeline, ["<name>"], pipeline.key)]
        mends += _by_time(groups, pipeline.key) if groups.end_by_time else []
        of_last = ""
        if earlier is not None and not earlier.announces:
            mends, of_last = [*mends, _announcing(earlier)], "of the last join "
        raise ValueError(
            f"{field}.by: no stream {of_last}is punctuated on {quoted(pipeline.key)}, so no group would "
            f"ever close; {', or '.join([*mends, *_so_far(groups)])}"
        )
    if pipeline.join is not None and pipeline.last_stage.propagation is Propagation.NEVER:
        able = [preset for preset, ability in PRESETS.items() if ability.propagate is not Propagation.NEVER]
        raise ValueError(
            f"{field}: preset {pipeline.join.preset} announces no key, so no group would ever close; "
            f"leave it out, or choose steps.{pipeline.flow.join}.preset: {', '.join(able)}"
        )


def _closes_keys(stage: Stage) -> bool:
    return any(map(stage.promises.closes_keys, stage.inputs))


def _require_column(pipeline: Pipeline, reference: str, field: str) -> tuple[str, str]:
    """Return the origin and the name of a column of results, or refuse it."""
    try:
        origin, column = pipeline.references.resolved(reference)
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from error
    require_name(pipeline.references.origins, origin, field, "streams or relations")
    require_column(pipeline.references.origins[origin], column, field)
    if hiding := [stage for stage in pipeline.stages if origin in stage.columns.hidden]:
        raise ValueError(
            f"{field}: {reference!r} is on the right of a semi join, whose results have the left "
            f"columns alone; {hiding[0].field}.type: inner keeps both"
        )
    return origin, column


def _check_measure(pipeline: Pipeline, field: str, measure: Measure, reference: str) -> None:
    origin, _ = _require_column(pipeline, reference, field)
    try:
        measure.kind(pipeline.references.type_of(reference))
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from error
    stage = next((stage for stage in pipeline.stages if stage.steps.join == origin), None)
    if (
        stage is not None
        and FUNCTIONS[measure.function].by_order
        and stage.inputs[0] not in stage.present_inputs
    ):
        raise ValueError(
            f"{field}: {measure.function} goes by the event time of {stage.inputs[0]}, which results of "
            f"{origin} may lack; write min or max, or another {stage.field}.type"
        )


def _check_rollup(rollup: Rollup) -> None:
    given, field = rollup.of.columns(), rollup.field
    for name in rollup.key:
        require_column(given, name, f"{field}.by")
        if given[name].many:
            raise ValueError(f"{field}.by: column {name!r} is {given[name]}; name one of single values")
        require_key_column(given, name, f"{field}.by")
    for name, measure in rollup.aggregate.measures.items():
        if measure.column is not None:
            _check_rollup_measure(rollup, f"{field}.measures.{name}", measure, measure.column)
    # Keys of the join that are closed one by one are announced in their buckets alone, and no pattern
    # tells the stage of the rollup about them. So its groups by the whole join key would stay for ever.
    if set(rollup.key) >= set(rollup.of.key):
        raise ValueError(
            f"{field}.by: {', '.join(rollup.key)} has the whole key of {rollup.of.step}, so each group "
            "would have one row; leave a column of it out"
        )
    if not (rollup.closers or rollup.times or rollup.is_running):
        raise ValueError(
            f"{field}.by: no stream promises anything about {', '.join(rollup.key)} that holds for all "
            f"results, so no group would ever close; {_so_far(rollup)[0]}"
        )


def _check_rollup_measure(rollup: Rollup, field: str, measure: Measure, column: str) -> None:
    given = rollup.of.columns()
    require_column(given, column, field)
    if FUNCTIONS[measure.function].by_order:
        raise ValueError(
            f"{field}: {measure.function} goes by the place of a row, and groups of {rollup.of.step} "
            "have none; write min or max"
        )
    if given[column].many:
        raise ValueError(f"{field}: column {column!r} is {given[column]}; name one of single values")
    try:
        rollup.kind(measure, column)
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from error
