"""The bounds of open groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.operators.stream_join.presets import PRESETS, Preset, Propagation
from endmark.pipeline.boundedness.bound import Bound, Passing, least
from endmark.pipeline.boundedness.input import PUNCTUATIONS, Input, without
from endmark.pipeline.boundedness.rows import bound_of, mend_punctuations, ways_over
from endmark.pipeline.boundedness.state import GROUPS, State
from endmark.pipeline.groups import ResultGroups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.pipeline.groups import Groups
    from endmark.pipeline.model import Pipeline


def _groups_of_join(step: str, inputs: list[Input], preset: Preset) -> State:
    """Return the state of groups by the join key, given the sides of the join."""
    if PRESETS[preset].propagate is Propagation.NEVER:
        return State(step, GROUPS, note=f"since preset {preset} announces no key")
    bounds: list[Bound] = []
    notes, mends = [], []
    early = PRESETS[preset].propagate is Propagation.EARLY
    silent = [side for side in inputs if not side.closes]
    if not silent:
        first, *rest = inputs
        bounds.append(bound_of([first], first, [(other, "closing") for other in rest]))
    for side in inputs:
        others = without(inputs, side)
        preserved = [other for other in others if other.preserved]
        if not side.closes:
            mends += mend_punctuations(silent)
        elif not early:
            if silent:
                named = " and ".join(each.name for each in silent)
                count = "both" if len(inputs) == 2 else "all"
                notes.append(f"since preset {preset} announces what {count} close and {named} closes nothing")
        elif preserved:
            notes += [
                f"since {each.name} rows are results even without a partner and {each.without_punctuations}"
                for each in preserved
            ]
        elif found := ways_over(side, others):
            bounds += found
        else:
            notes.append(f"since {side.name} rows of closed keys stay for ever")
            mends.append(side.mend_window)
    if bounds:
        return State(step, GROUPS, least(bounds))
    return State(step, GROUPS, note=" and ".join(notes), mends=tuple(dict.fromkeys(mends)))


def _groups_alone(step: str, side: Input, passing: Sequence[Bound]) -> State:
    bounds = (Bound((side.name,), (side.closes,), side.on),) if side.closes else ()
    return State(step, GROUPS, (*bounds, *passing))


def _passing(groups: Groups) -> list[Bound]:
    """Return the bounds by the progress of streams, each of which has derived times in the group key."""
    return [Passing(on=columns, progress_of=(stream,)) for stream, columns in groups.times.items()]


def by_patterns(groups: Groups) -> State:
    """Return groups that patterns and the progress of streams make final."""
    bounds = [Bound((stream,), (PUNCTUATIONS,), columns) for stream, columns in groups.closers.items()]
    bounds += _passing(groups)
    return State(groups.step, GROUPS, tuple(bounds), _group_of_nulls(groups.pipeline, bounds))


def _group_of_nulls(pipeline: Pipeline, bounds: Sequence[Bound]) -> str | None:
    """Say which group no bound closes, as all of its columns are of a stream that some results lack.

    Its columns are null, and no pattern matches a null. So only the end of a stream closes it that has a row
    in every result.
    """
    closing = {name for bound in bounds for name in (*bound.closed_by, *bound.progress_of)}
    absent = [name for name in pipeline.shown if name in closing and name not in pipeline.present]
    if not absent or closing & set(pipeline.present):
        return None
    ending = [name for name in pipeline.present if _can_end(pipeline, name)]
    until = f" until the end of {' or of '.join(ending)}" if ending else ""
    return f"that of results without {absent[0]} stays open{until}"


def _can_end(pipeline: Pipeline, stream: str) -> bool:
    """Return whether punctuations can end a stream and the stage of groups hears of it."""
    behind = pipeline.stages[len(pipeline.stage_of(stream).before) :]
    members = [pipeline.streams[name] for name in pipeline.flow.members_of(stream)]
    return all(stage.announces for stage in behind) and all(member.punctuated_on for member in members)


def result_groups_state(groups: ResultGroups, inputs: list[Input]) -> State:
    """Return the state of groups of results, given the inputs of the last stage."""
    join = groups.pipeline.join
    if groups.regroups:
        return unless_written(groups, by_patterns(groups))
    if join is None:
        return unless_written(groups, _groups_alone(groups.step, inputs[0], _passing(groups)))
    return unless_written(groups, _groups_of_join(groups.step, inputs, join.preset))


def unless_written(groups: Groups, found: State) -> State:
    """Return the state of some groups. If their rows so far are written, they need not be closed."""
    if found.bounded_by or groups.needs_final:
        return found
    named = groups.references.values() if isinstance(groups, ResultGroups) else groups.key
    pipeline, role = groups.pipeline, groups.running_role
    output = pipeline.outputs.directories.get(role) or f"topic {pipeline.outputs.topics[role]}"
    note = f"one for each value of {', '.join(named)}, for {output}"
    return State(groups.step, GROUPS, note=note, declared=True)
