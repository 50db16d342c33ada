"""Checks of the inputs of joins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.pipeline.fields import quoted
from endmark.types import JoinType

if TYPE_CHECKING:
    from endmark.pipeline.stage import Stage


def check_inputs(stage: Stage) -> None:
    """Check that the join of a stage can have its inputs, and that its preset can have its other fields."""
    if stage.join is None:
        return
    if len(stage.inputs) > 2 and stage.join.type is not JoinType.INNER:
        raise ValueError(
            f"{stage.field}.type: only an inner join has more than two inputs; write inner, or leave "
            f"out {quoted(stage.inputs[2:])}"
        )
    # It raises for a field that the preset has no use for.
    stage.join.policy(field=stage.field)


def check_derived(earlier: Stage) -> None:
    """Check that the results of a stage can be rows of the next one: each has an event time."""
    first, *others = earlier.inputs
    if earlier.join is None or first in earlier.present_inputs:
        return
    flipped = f", or left with {others[0]} first" if earlier.join.type is JoinType.RIGHT else ""
    raise ValueError(
        f"{earlier.field}.type: results of a {earlier.join.type} join may lack a row of {first}, whose event "
        f"time is theirs in the next step, as it is the first input; write inner, left or semi{flipped}"
    )
