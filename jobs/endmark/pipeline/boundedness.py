"""The bounds of a pipeline's state, derived from the pipeline file alone.

The rules follow Tucker et al. (TKDE'03) and the safety of continuous join queries (VLDB'06). A stream's rows
are freed when each other stream has closed their key or its progress has left their window. A group is final
when a stream has closed its key and no live row of that stream has it; rows of all streams with this key are
freed then. If rows of the other stream are results even without a partner, the other stream must have closed
the key too. The bound of groups is also the bound of the closed keys that wait to be announced. Groups by
another key than the join's are final when a stream that has a row in every result has promised them.

The results of a stage are a derived stream of the next one. It closes a key when a stream of the earlier
stage has promised it. Its rows have the event time of the first input there. So its progress follows the
oldest row of this input in state, and moves if something frees these rows.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from itertools import product
from typing import TYPE_CHECKING, Any

from endmark.domain import Domain
from endmark.errors import ConfigError
from endmark.operators.stream_join.presets import PRESETS, Preset, Propagation
from endmark.pipeline.duration_words import in_words
from endmark.pipeline.groups import ResultGroups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.pipeline.groups import Groups
    from endmark.pipeline.model import Pipeline
    from endmark.pipeline.stage import Stage
    from endmark.pipeline.steps import Deduplicate

_KEYS = "closed keys"
_VALUES = "seen values"
_GROUPS = "groups"
_PUNCTUATIONS = "punctuations"
_BY_ROWS = ("unique keys", "clusters", "closing rule")
_TOLD = 3  # the bounds that a text names; two streams have no more
_ONE_WORD = (Domain.LONG, Domain.DATE, Domain.TIMESTAMP, Domain.BOOLEAN)


@dataclass(frozen=True)
class Bound:
    """The events that free state, once all of them have happened.

    Args:
        closed_by: the streams that must close the key.
        means: how each of them closes it, such as `punctuations`; as long as `closed_by`.
        on: the columns of the key.
        window_seconds: event time for which a row stays joinable; `None` if time does not matter.
        progress_of: the streams whose progress leaves that window.
    """

    closed_by: tuple[str, ...] = ()
    means: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    window_seconds: float | None = None
    progress_of: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = []
        if self.closed_by:
            *others, last = zip(map(_possessive, self.closed_by), self.means, strict=True)
            # Streams that close the key by the same means share the word for it.
            closing = [owner if means == last[1] else f"{owner} {means}" for owner, means in others]
            parts.append(f"{_listed([*closing, ' '.join(last)])} on {', '.join(self.on)}")
        if self.window_seconds is not None:
            duration = in_words(timedelta(seconds=self.window_seconds))
            owners = _listed([_possessive(name) for name in self.progress_of])
            parts.append(f"{self._wait} {duration} after {owners} progress")
        return " with ".join(parts)

    @property
    def _wait(self) -> str:
        return "window"


class Forgetting(Bound):
    """The bound of keys and values that are forgotten: progress since they were closed or seen."""

    @property
    def _wait(self) -> str:
        return "forgetting them"


class Passing(Bound):
    """The bound of groups by a derived time: the progress of a stream passes their time."""

    def __str__(self) -> str:
        return (
            f"{_listed([_possessive(name) for name in self.progress_of])} progress past {', '.join(self.on)}"
        )


@dataclass(frozen=True)
class State:
    """The state that a pipeline keeps for one input.

    Args:
        input: a stream, or an aggregate.
        holds: `rows` (which includes what a semi join remembers of the rows it has put out), `closed keys`,
            `seen values` (of which later rows are duplicates) or `groups`.
        bounded_by: the bounds of this state, each of which is enough; empty if nothing bounds it.
        note: the reason why nothing bounds it, or the group to which the bounds do not apply.
        mends: changes of the pipeline file, each of which alone would bound it.
        declared: whether the pipeline file asks for it, since a table has the rows so far of all groups.
    """

    input: str
    holds: str
    bounded_by: tuple[Bound, ...] = ()
    note: str | None = None
    mends: tuple[str, ...] = ()
    declared: bool = False

    @property
    def name(self) -> str:
        """The name for people, such as `bids rows`."""
        return f"{self.input} {self.holds}"

    @property
    def facts(self) -> dict[str, Any]:
        """The state as values for JSON."""
        facts = asdict(self)
        del facts["mends"]
        return facts

    @property
    def bound(self) -> str:
        """The bounds in words, or the reason why there is none."""
        if not self.bounded_by:
            return self.note or "" if self.declared else f"unbounded, {self.note}"
        found = _listed([f"by {bound}" for bound in self.bounded_by[:_TOLD]])
        more = len(self.bounded_by) - _TOLD
        untold = f", or in {more} more way{'s' if more > 1 else ''}" if more > 0 else ""
        return f"bounded {found}{untold}{self.besides}"

    @property
    def besides(self) -> str:
        """The part that the bounds leave out, as the end of a sentence; empty if there is none."""
        return f"; {self.note}" if self.bounded_by and self.note else ""

    def __str__(self) -> str:
        return f"{self.name}: {self.bound}"


@dataclass(frozen=True)
class _Input:
    """One side of the join, or the one stream, as far as state is concerned.

    Args:
        name: the stream, or the join whose results are a derived stream.
        window: the event time for which its rows stay joinable; `None` is for ever.
        window_field: the field that has the window.
        closes: how it closes keys, such as by punctuations; `None` if it closes none.
        declared: the columns of `punctuated_on`; for a derived stream, those of the key.
        preserved: whether its rows are results even without a partner.
        on: the columns of the key.
        without_punctuations: the reason why it closes no key, if it closes none.
        mend_punctuations: the change of the file by which it closes keys; empty if no change does.
        stuck: the reason why its progress does not move; `None` if it does.
        mends_stuck: the changes of the file, each of which alone would let it move.
    """

    name: str
    window: timedelta | None
    window_field: str
    closes: str | None
    declared: tuple[str, ...]
    preserved: bool
    on: tuple[str, ...]
    without_punctuations: str
    mend_punctuations: str
    stuck: str | None = None
    mends_stuck: tuple[str, ...] = ()

    @property
    def punctuated(self) -> bool:
        return set(self.on) <= set(self.declared)

    @property
    def names_keys(self) -> bool:
        return self.punctuated or self.closes in _BY_ROWS

    @property
    def mend_window(self) -> str:
        return f"set {self.window_field}"


def states(pipeline: Pipeline) -> list[State]:
    """Return all the state that a pipeline keeps from one batch to the next."""
    stages = [(stage, _inputs(stage)) for stage in pipeline.stages]
    rows = [
        _rows(side, _without(inputs, side), stage.join.preset, stage.place)
        for stage, inputs in stages
        if stage.join is not None
        for side in inputs
    ]
    closed = [
        _closed_keys(stage, side)
        for stage, inputs in stages
        for side in inputs
        if side.names_keys and side.name in pipeline.inputs
    ]
    groups = [_result_groups(each, stages[-1][1]) for each in pipeline.groups]
    groups += [_unless_written(each, _by_patterns(each)) for each in pipeline.rollups]
    streams = [side for _, inputs in stages for side in inputs if side.name in pipeline.inputs]
    deduplicated = [(side, pipeline.deduplicate_of(side.name)) for side in streams]
    seen = [_seen_values(side, *found) for side, found in deduplicated if found is not None]
    return [*rows, *groups, *seen, *closed]


def require_bounded(pipeline: Pipeline) -> None:
    """Refuse rows and groups that nothing ever frees, unless the pipeline file accepts them.

    Closed keys are no reason to refuse a pipeline, since they are small and come with punctuations.

    Raises:
        ConfigError: some state is unbounded. The error names this state, the reason, and each change that
            would bound all of it.
    """
    unbounded = [
        state
        for state in states(pipeline)
        if state.holds != _KEYS and not state.bounded_by and not state.declared
    ]
    if not unbounded or pipeline.unbounded_state == "allow":
        return
    mends = [mend for mend in unbounded[0].mends if all(mend in state.mends for state in unbounded)]
    raise ConfigError(
        f"{'; '.join(map(str, unbounded))}; "
        + ", or ".join([*([", ".join(mends)] if mends else []), "accept it with unbounded_state: allow"])
    )


def _inputs(stage: Stage) -> list[_Input]:
    return [
        _derived(stage, name) if name == stage.derived else _streams(stage, name) for name in stage.inputs
    ]


def _streams(stage: Stage, name: str) -> _Input:
    """Return a stream or a union as an input. A union closes a key once all of its members have closed it."""
    members = [_stream(stage, name, member) for member in stage.pipeline.flow.members_of(name)]
    silent = next((each for each in members if not each.closes), members[0])
    means = dict.fromkeys(str(each.closes) for each in members)
    common = tuple(column for column in silent.declared if all(column in each.declared for each in members))
    return replace(silent, closes=" and ".join(means) if silent.closes else None, declared=common)


def _stream(stage: Stage, given: str, name: str) -> _Input:
    """Return a stream as an input, or as the part of one that is a union.

    Args:
        stage: the stage.
        given: the input.
        name: the stream.
    """
    stream, key = stage.pipeline.streams[name], stage.key
    rule = stream.closes is not None and set(stream.closes.on) == set(key)
    by_rows = zip(_BY_ROWS, (stream.unique, stream.clustered, rule), strict=True)
    means = {**dict(by_rows), "order": stream.ordered, _PUNCTUATIONS: stage.closes_key(name)}
    declared = stream.punctuated_on
    silence = f"{name} has no punctuations"
    if declared:
        silence = f"{name} has punctuations on {', '.join(declared)} alone, which close no key"
    return _Input(
        given,
        stage.window_of(given),
        stage.window_field(given),
        next((by for by, does in means.items() if does), None),
        declared,
        stage.preserved(given),
        key,
        silence,
        _mend_promises(name, [*key, *(column for column in declared if column not in key)]),
    )


def _derived(stage: Stage, name: str) -> _Input:
    """Return the derived stream of a stage as an input."""
    earlier = stage.earlier
    if earlier is None or earlier.join is None:
        raise AssertionError(f"{name} is no join of an earlier stage")
    first, *others = _inputs(earlier)
    oldest = _rows(first, others, earlier.join.preset, earlier.place)
    columns, mend = stage.key_columns(name), ""
    for stream in earlier.shown:
        own = [column.removeprefix(f"{stream}_") for column in columns if column.startswith(f"{stream}_")]
        if own and not mend:
            member = stage.pipeline.flow.members_of(stream)[0]
            declared = stage.pipeline.streams[member].punctuated_on
            mend = _mend_promises(member, [*declared, *own])
    return _Input(
        name,
        stage.window_of(name),
        stage.window_field(name),
        _PUNCTUATIONS if stage.closers else None,
        stage.key if stage.closers else (),
        stage.preserved(name),
        stage.key,
        f"no stream of {name} has punctuations on {', '.join(stage.key)}",
        mend,
        None if oldest.bounded_by else f"the progress of {name} waits for {first.name} rows, which stay,",
        oldest.mends,
    )


def _mend_promises(stream: str, columns: Sequence[str]) -> str:
    return f"declare streams.{stream}.punctuated_on: [{', '.join(columns)}]"


def _without(inputs: Sequence[_Input], one: _Input) -> list[_Input]:
    return [each for each in inputs if each is not one]


def _rows(side: _Input, others: list[_Input], preset: Preset, step: str) -> State:
    """Return the state of a side's rows, given the other sides of its join."""
    able = PRESETS[preset]
    bounds = _shut(side, others, purges=able.purge)
    for other in others:
        if other.closes and able.purge:
            bounds += _over(other, _without([side, *others], other))
    if bounds:
        return State(side.name, "rows", _least(bounds))
    silent = [other for other in others if not other.closes]
    stuck = [other for other in others if other.stuck is not None] if side.window is not None else []
    no_window = (
        f"{side.window_field} is not set and" if able.window else f"preset {preset} has no windows and"
    )
    if stuck:
        no_window = f"{stuck[0].stuck} and"
    no_purge = " and ".join(each.without_punctuations for each in silent) if able.purge else "does not purge"
    if able.window and not able.purge:
        no_purge = f"preset {preset} does not purge"
    mends = [side.mend_window] if able.window and not stuck else []
    mends += [mend for each in stuck for mend in each.mends_stuck]
    if able.purge:
        mends += _mend_punctuations(silent)
        # Where one of several other streams closes keys, its own window frees all rows of a key.
        mends += [other.mend_window for other in others if other.closes and able.window]
    elif not silent:
        mends.append(f"set {step}.preset: {Preset.AUTO}")
    return State(side.name, "rows", note=f"since {no_window} {no_purge}", mends=tuple(mends))


def _shut(side: _Input, others: Sequence[_Input], *, purges: bool) -> list[Bound]:
    """Return the ways in which no row of the others can meet the rows of a side any more.

    Args:
        side: the side.
        others: the other sides.
        purges: whether closed keys free rows.
    """
    ways = [
        [*(["window"] if _passes(side, other) else []), *(["closing"] if other.closes and purges else [])]
        for other in others
    ]
    return [_bound([], side, list(zip(others, chosen, strict=True))) for chosen in product(*ways)]


def _passes(side: _Input, other: _Input) -> bool:
    """Return whether the progress of another side leaves the window of a side's rows."""
    return side.window is not None and other.stuck is None


def _over(side: _Input, others: Sequence[_Input]) -> list[Bound]:
    """Return the ways in which no result of a key can come any more, if a side closes the key."""
    ways = [
        [*(["closing"] if other.closes else []), *(["window"] if _passes(side, other) else [])]
        for other in others
    ]
    return [_bound([side], side, list(zip(others, chosen, strict=True))) for chosen in product(*ways)]


def _bound(closing: list[_Input], side: _Input, chosen: Sequence[tuple[_Input, str]]) -> Bound:
    """Return the bound in which some sides close the key, and others leave the window of a side's rows."""
    closing = [*closing, *(other for other, way in chosen if way == "closing")]
    passing = tuple(other.name for other, way in chosen if way == "window")
    return Bound(
        tuple(each.name for each in closing),
        tuple(str(each.closes) for each in closing),
        side.on if closing else (),
        side.window.total_seconds() if side.window is not None and passing else None,
        passing,
    )


def _least(bounds: list[Bound]) -> tuple[Bound, ...]:
    """Return the bounds that ask for nothing beyond another one; those of few events come first."""
    found: list[Bound] = []
    for bound in sorted(bounds, key=lambda each: bool(each.closed_by) + bool(each.progress_of)):
        if not any(_implies(bound, other) for other in found):
            found.append(bound)
    return tuple(found)


def _implies(bound: Bound, other: Bound) -> bool:
    """Return whether the events of one bound include those of another one."""
    same_window = not other.progress_of or bound.window_seconds == other.window_seconds
    return (
        set(other.closed_by) <= set(bound.closed_by)
        and set(other.progress_of) <= set(bound.progress_of)
        and same_window
    )


def _mend_punctuations(silent: Sequence[_Input]) -> list[str]:
    """Return the change by which all of some inputs close keys, if there is one."""
    mends = [each.mend_punctuations for each in silent]
    return [" and ".join(mends)] if mends and all(mends) else []


def _groups_of_join(step: str, inputs: list[_Input], preset: Preset) -> State:
    """Return the state of groups by the join key, given the sides of the join."""
    if PRESETS[preset].propagate is Propagation.NEVER:
        return State(step, _GROUPS, note=f"since preset {preset} announces no key")
    bounds: list[Bound] = []
    notes, mends = [], []
    early = PRESETS[preset].propagate is Propagation.EARLY
    silent = [side for side in inputs if not side.closes]
    if not silent:
        first, *rest = inputs
        bounds.append(_bound([first], first, [(other, "closing") for other in rest]))
    for side in inputs:
        others = _without(inputs, side)
        preserved = [other for other in others if other.preserved]
        if not side.closes:
            mends += _mend_punctuations(silent)
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
        elif found := _over(side, others):
            bounds += found
        else:
            notes.append(f"since {side.name} rows of closed keys stay for ever")
            mends.append(side.mend_window)
    if bounds:
        return State(step, _GROUPS, _least(bounds))
    return State(step, _GROUPS, note=" and ".join(notes), mends=tuple(dict.fromkeys(mends)))


def _groups_alone(step: str, side: _Input, passing: Sequence[Bound]) -> State:
    bounds = (Bound((side.name,), (side.closes,), side.on),) if side.closes else ()
    return State(step, _GROUPS, (*bounds, *passing))


def _passing(groups: Groups) -> list[Bound]:
    """Return the bounds by the progress of streams, each of which has derived times in the group key."""
    return [Passing(on=columns, progress_of=(stream,)) for stream, columns in groups.times.items()]


def _by_patterns(groups: Groups) -> State:
    """Return groups that patterns and the progress of streams make final."""
    bounds = [Bound((stream,), (_PUNCTUATIONS,), columns) for stream, columns in groups.closers.items()]
    bounds += _passing(groups)
    return State(groups.step, _GROUPS, tuple(bounds), _group_of_nulls(groups.pipeline, bounds))


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


def _result_groups(groups: ResultGroups, inputs: list[_Input]) -> State:
    join = groups.pipeline.join
    if groups.regroups:
        return _unless_written(groups, _by_patterns(groups))
    if join is None:
        return _unless_written(groups, _groups_alone(groups.step, inputs[0], _passing(groups)))
    return _unless_written(groups, _groups_of_join(groups.step, inputs, join.preset))


def _unless_written(groups: Groups, found: State) -> State:
    """Return the state of some groups. If their rows so far are written, they need not be closed."""
    if found.bounded_by or groups.needs_final:
        return found
    named = groups.references.values() if isinstance(groups, ResultGroups) else groups.key
    pipeline, role = groups.pipeline, groups.running_role
    place = pipeline.directories.get(role) or f"topic {pipeline.output_topics[role]}"
    note = f"one for each value of {', '.join(named)}, for {place}"
    return State(groups.step, _GROUPS, note=note, declared=True)


def _closed_keys(stage: Stage, side: _Input) -> State:
    pipeline = stage.pipeline
    forget_after = pipeline.inputs[side.name].forget_keys_after
    if forget_after is not None:
        bound = Forgetting(window_seconds=forget_after.total_seconds(), progress_of=stage.inputs)
        return State(side.name, _KEYS, (bound,))
    kinds = [pipeline.stream_columns(side.name)[column].domain for column in side.on]
    one_word = len(kinds) == 1 and kinds[0] in _ONE_WORD
    size = f"16 bytes each and their {', '.join(side.on)}"
    if one_word:
        size = "in ranges of 24 bytes"
    note = f"remembered until a pattern holds them, {size}"
    union = side.name in pipeline.flow.unions  # it forgets no key
    mends = () if union else (f"set streams.{side.name}.forget_keys_after",)
    return State(side.name, _KEYS, note=note, mends=mends)


def _seen_values(side: _Input, step: str, declared: Deduplicate) -> State:
    bounds: list[Bound] = []
    if declared.within is not None:
        bounds.append(Forgetting(window_seconds=declared.within.total_seconds(), progress_of=(side.name,)))
    if side.closes:
        bounds.append(Bound((side.name,), (side.closes,), side.on))
    if bounds:
        return State(side.name, _VALUES, tuple(bounds))
    field = f"steps.{step}.deduplicate.within"
    note = f"since {field} is not set and {side.without_punctuations}"
    return State(side.name, _VALUES, note=note, mends=(f"set {field}", side.mend_punctuations))


def _listed(parts: Sequence[str]) -> str:
    *others, last = parts
    return f"{', '.join(others)} and {last}" if others else last


def _possessive(name: str) -> str:
    return f"{name}'" if name.endswith("s") else f"{name}'s"
