"""The bounds of a pipeline's state, derived from the pipeline file alone.

The rules follow Tucker et al. (TKDE'03) and the safety of continuous join queries (VLDB'06). A stream's rows
are freed when the other stream closes their key or its progress leaves their window. A group is final when a
stream has closed its key and no live row of that stream has it. If rows of the other stream are results even
without a partner, the other stream must have closed the key too. The bound of groups is also the bound of the
closed keys that wait to be announced. Groups by another key than the join's are final when a stream that has
a row in every result has promised them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from endmark.domain import Domain
from endmark.errors import ConfigError
from endmark.operators.stream_join.presets import PRESETS, Preset, Propagation

if TYPE_CHECKING:
    from datetime import timedelta

    from endmark.pipeline.model import Pipeline

_KEYS = "closed keys"
_PUNCTUATIONS = "punctuations"
_BY_ROWS = ("unique keys", "clusters", "closing rule")
_ONE_WORD = (Domain.LONG, Domain.DATE, Domain.TIMESTAMP, Domain.BOOLEAN)


@dataclass(frozen=True)
class Bound:
    """The events that free state, once all of them have happened.

    Args:
        closed_by: the streams that must close the key.
        means: how each of them closes it, such as `punctuations`; as long as `closed_by`.
        on: the columns of the key.
        window_seconds: event time for which a row stays joinable; `None` if time does not matter.
        progress_of: the stream whose progress leaves that window.
    """

    closed_by: tuple[str, ...] = ()
    means: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    window_seconds: float | None = None
    progress_of: str | None = None

    def __str__(self) -> str:
        parts = []
        if self.closed_by:
            *others, last = zip(map(_possessive, self.closed_by), self.means, strict=True)
            # Streams that close the key by the same means share the word for it.
            closing = [owner if means == last[1] else f"{owner} {means}" for owner, means in others]
            parts.append(f"{' and '.join([*closing, ' '.join(last)])} on {', '.join(self.on)}")
        if self.window_seconds is not None and self.progress_of is not None:
            seconds = f"{self.window_seconds:f}".rstrip("0").rstrip(".")
            parts.append(f"window {seconds} s after {_possessive(self.progress_of)} progress")
        return " with ".join(parts)


@dataclass(frozen=True)
class State:
    """The state that a pipeline keeps for one input.

    Args:
        input: a stream, or `groups` for the aggregate.
        holds: `rows` (which includes what a semi join remembers of the rows it has put out), `closed keys` or
            `groups`.
        bounded_by: the bounds of this state, each of which is enough; empty if nothing bounds it.
        note: the reason why nothing bounds it.
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
        return self.holds if self.input == self.holds else f"{self.input} {self.holds}"

    @property
    def facts(self) -> dict[str, Any]:
        """The state as values for JSON."""
        facts = asdict(self)
        del facts["mends"]
        return facts

    def __str__(self) -> str:
        if not self.bounded_by:
            return f"{self.name}: {self.note}" if self.declared else f"{self.name}: unbounded, {self.note}"
        *others, last = (f"by {bound}" for bound in self.bounded_by)
        return f"{self.name}: bounded {' and '.join([', '.join(others), last] if others else [last])}"


@dataclass(frozen=True)
class _Input:
    """One side of the join, or the one stream, as far as state is concerned."""

    name: str
    window: timedelta | None
    window_field: str
    closes: str | None  # how it closes keys, such as by punctuations; `None` if it closes none
    declared: tuple[str, ...]  # the columns of `punctuated_on`
    preserved: bool
    on: tuple[str, ...]

    @property
    def punctuated(self) -> bool:
        return set(self.on) <= set(self.declared)

    @property
    def names_keys(self) -> bool:
        return self.punctuated or self.closes in _BY_ROWS

    @property
    def mend_window(self) -> str:
        return f"set {self.window_field}"

    @property
    def mend_punctuations(self) -> str:
        others = (column for column in self.declared if column not in self.on)
        return f"declare streams.{self.name}.punctuated_on: [{', '.join([*self.on, *others])}]"

    @property
    def without_punctuations(self) -> str:
        if not self.declared:
            return f"{self.name} has no punctuations"
        return f"{self.name} has punctuations on {', '.join(self.declared)} alone, which close no key"


def states(pipeline: Pipeline) -> list[State]:
    """Return all the state that a pipeline keeps from one batch to the next."""
    inputs = [_input(pipeline, name) for name in pipeline.sides]
    closed = [_closed_keys(pipeline, side) for side in inputs if side.names_keys]
    groups = [] if pipeline.aggregate is None else [_all_groups(pipeline, inputs)]
    if pipeline.join is None:
        return [*groups, *closed]
    (left, right), preset = inputs, pipeline.join.preset
    step = f"steps.{pipeline.flow.join}"
    return [_rows(left, right, preset, step), _rows(right, left, preset, step), *groups, *closed]


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


def _input(pipeline: Pipeline, name: str) -> _Input:
    stream, key, join = pipeline.streams[name], pipeline.key, pipeline.join
    rule = stream.closes is not None and set(stream.closes.on) == set(key)
    by_rows = zip(_BY_ROWS, (stream.unique, stream.clustered, rule), strict=True)
    means = {**dict(by_rows), "order": stream.ordered, _PUNCTUATIONS: pipeline.closes_keys(name)}
    closes = next((by for by, does in means.items() if does), None)
    field, preserved = "", False
    if join is not None:
        at = pipeline.sides.index(name)
        field = f"steps.{pipeline.flow.join}.window.{join.inputs[at]}"
        preserved = join.type.keeps_right if at else join.type.keeps_left
    return _Input(name, pipeline.window_of(name), field, closes, stream.punctuated_on, preserved, key)


def _rows(side: _Input, other: _Input, preset: Preset, step: str) -> State:
    able, bounds = PRESETS[preset], []
    if side.window is not None:
        bounds.append(Bound(window_seconds=side.window.total_seconds(), progress_of=other.name))
    if other.closes and able.purge:
        bounds.append(Bound((other.name,), (other.closes,), other.on))
    if bounds:
        return State(side.name, "rows", tuple(bounds))
    no_window = (
        f"{side.window_field} is not set and" if able.window else f"preset {preset} has no windows and"
    )
    no_purge = other.without_punctuations if able.purge else "does not purge"
    if able.window and not able.purge:
        no_purge = f"preset {preset} does not purge"
    mends = [side.mend_window] if able.window else []
    if not other.closes and able.purge:
        mends.append(other.mend_punctuations)
    elif not able.purge and other.closes:
        mends.append(f"set {step}.preset: {Preset.AUTO}")
    return State(side.name, "rows", note=f"since {no_window} {no_purge}", mends=tuple(mends))


def _groups(left: _Input, right: _Input, preset: Preset) -> State:
    bounds, notes, mends = [], [], []
    early = PRESETS[preset].propagate is Propagation.EARLY
    if left.closes and right.closes:
        bounds.append(Bound((left.name, right.name), (left.closes, right.closes), left.on))
    for side, other in ((left, right), (right, left)):
        if not side.closes:
            mends.append(side.mend_punctuations)
        elif not early:
            if not other.closes:
                notes.append(
                    f"since preset {preset} announces what both close and {other.name} closes nothing"
                )
        elif other.preserved:
            notes.append(
                f"since {other.name} rows are results even without a partner and {other.without_punctuations}"
            )
        elif side.window is None:
            notes.append(f"since {side.name} rows of closed keys stay for ever")
            mends.append(side.mend_window)
        else:
            bounds.append(
                Bound((side.name,), (side.closes,), side.on, side.window.total_seconds(), other.name)
            )
    if bounds:
        return State("groups", "groups", tuple(bounds))
    return State("groups", "groups", note=" and ".join(notes), mends=tuple(mends))


def _groups_alone(side: _Input) -> State:
    bounds = (Bound((side.name,), (side.closes,), side.on),) if side.closes else ()
    return State("groups", "groups", bounds)


def _all_groups(pipeline: Pipeline, inputs: list[_Input]) -> State:
    """Return the groups of a pipeline. If a table has their rows so far, they need not be closed."""
    if pipeline.regroups:
        closers = pipeline.group_closers.items()
        bounds = [Bound((stream,), (_PUNCTUATIONS,), columns) for stream, columns in closers]
        found = State("groups", "groups", tuple(bounds))
    elif pipeline.join is None:
        found = _groups_alone(inputs[0])
    else:
        left, right = inputs
        found = _groups(left, right, pipeline.join.preset)
    if found.bounded_by or not pipeline.running_columns():
        return found
    columns, table = ", ".join(pipeline.group_key.values()), pipeline.directories["running"]
    return State("groups", "groups", note=f"one for each value of {columns}, for {table}", declared=True)


def _closed_keys(pipeline: Pipeline, side: _Input) -> State:
    kinds = [pipeline.streams[side.name].columns[column].domain for column in side.on]
    one_word = len(kinds) == 1 and kinds[0] in _ONE_WORD
    size = "at most 8 bytes each" if one_word else f"8 bytes each and their {', '.join(side.on)}"
    return State(side.name, _KEYS, note=f"remembered until a range holds them, {size}")


def _possessive(name: str) -> str:
    return f"{name}'" if name.endswith("s") else f"{name}'s"
