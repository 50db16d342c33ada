"""The bounds of what is remembered about keys and values whose rows are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.domain import Domain
from endmark.pipeline.boundedness.bound import Bound, Forgetting
from endmark.pipeline.boundedness.state import CLOSED_KEYS, SEEN_VALUES, State

if TYPE_CHECKING:
    from endmark.pipeline.boundedness.input import Input
    from endmark.pipeline.stage import Stage
    from endmark.pipeline.steps.rows import Deduplicate


_ONE_WORD = (Domain.LONG, Domain.DATE, Domain.TIMESTAMP, Domain.BOOLEAN)


def closed_keys_state(stage: Stage, side: Input) -> State:
    """Return the state of the keys that an input of a stage has closed by their names."""
    pipeline = stage.pipeline
    forget_after = pipeline.inputs[side.name].forget_keys_after
    if forget_after is not None:
        bound = Forgetting(window_seconds=forget_after.total_seconds(), progress_of=stage.inputs)
        return State(side.name, CLOSED_KEYS, (bound,))
    kinds = [pipeline.stream_columns(side.name)[column].domain for column in side.on]
    one_word = len(kinds) == 1 and kinds[0] in _ONE_WORD
    size = f"16 bytes each and their {', '.join(side.on)}"
    if one_word:
        size = "in ranges of 24 bytes"
    note = f"remembered until a pattern holds them, {size}"
    union = side.name in pipeline.flow.unions  # it forgets no key
    mends = () if union else (f"set streams.{side.name}.forget_keys_after",)
    return State(side.name, CLOSED_KEYS, note=note, mends=mends)


def seen_values_state(side: Input, step: str, declared: Deduplicate) -> State:
    """Return the state of the values by which rows of a stream are duplicates.

    Args:
        side: the stream as an input.
        step: the step that drops its duplicates.
        declared: what the step says about them.
    """
    bounds: list[Bound] = []
    if declared.within is not None:
        bounds.append(Forgetting(window_seconds=declared.within.total_seconds(), progress_of=(side.name,)))
    if side.closes:
        bounds.append(Bound((side.name,), (side.closes,), side.on))
    if bounds:
        return State(side.name, SEEN_VALUES, tuple(bounds))
    field = f"steps.{step}.deduplicate.within"
    note = f"since {field} is not set and {side.without_punctuations}"
    return State(side.name, SEEN_VALUES, note=note, mends=(f"set {field}", side.mend_punctuations))
