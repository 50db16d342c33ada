"""Any step of a pipeline, told apart by its fields."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Tag

from endmark.pipeline.steps.aggregate import AggregateStep
from endmark.pipeline.steps.join import JoinStep
from endmark.pipeline.steps.lookup import LookupStep
from endmark.pipeline.steps.rows import RowStep
from endmark.pipeline.steps.union import UnionStep

_KINDS = ("lookup", "union", "join", "aggregate")
_OF_ROWS = ("where", "derive", "select", "drop", "deduplicate")


def _kind(step: Any) -> str | None:
    """Return the tag of a step: the one of its fields that says what the step does."""
    if isinstance(step, RowStep | LookupStep | UnionStep | JoinStep | AggregateStep):
        return f"[{step.kind}]"
    if not isinstance(step, dict):
        return None
    found = [kind for kind in _KINDS if kind in step]
    if not found and any(field in step for field in _OF_ROWS):
        return f"[{RowStep.kind}]"
    return f"[{found[0]}]" if len(found) == 1 else None


# Error messages leave out the tags in brackets.
Step = Annotated[
    Annotated[RowStep, Tag("[rows]")]
    | Annotated[LookupStep, Tag("[lookup]")]
    | Annotated[UnionStep, Tag("[union]")]
    | Annotated[JoinStep, Tag("[join]")]
    | Annotated[AggregateStep, Tag("[aggregate]")],
    Discriminator(
        _kind,
        custom_error_type="step",
        custom_error_message="a step has one of lookup, union, join and aggregate, or where, derive, select, "
        "drop or deduplicate",
    ),
]
