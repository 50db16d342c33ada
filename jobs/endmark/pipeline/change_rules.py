"""The ways in which a field of the pipeline file may change. Each field is declared with one of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema

Value = TypeVar("Value")


class Change(StrEnum):
    """The ways to change a field, the easiest first."""

    LIVE = "live"
    TURN = "turn"
    RESTART = "restart"
    NEW_CHECKPOINT = "new checkpoint"

    @property
    def advice(self) -> str:
        """The steps of such a change, for people."""
        match self:
            case Change.LIVE:
                return "turn it while the job runs; the value in the file counts until the first turn"
            case Change.TURN:
                return "turn it while the job runs; leave the file as it was when the checkpoint was made"
            case Change.RESTART:
                return "change the file, and start the job again"
            case Change.NEW_CHECKPOINT:
                return "stop the job, change the file, and begin a new checkpoint by `endmark migrate FILE`"


@dataclass(frozen=True, kw_only=True)
class ChangeRule:
    """The rule by which a field may change. The JSON Schema of the field has it in its description.

    Args:
        change: the easiest way to change the field.
        remark: a reason or an exception, for people.
    """

    change: Change
    remark: str = ""

    def __str__(self) -> str:
        remark = f" ({self.remark})" if self.remark else ""
        return f"another value takes a {self.change}{remark}"

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler(core)
        if "$ref" in schema:  # the schema that it refers to has a description
            return schema
        descriptions = [schema["description"]] if "description" in schema else []
        return {**schema, "description": "; ".join([*descriptions, str(self)])}


@dataclass(frozen=True)
class Knob(ChangeRule):
    """The rule of a field that may be turned while the job runs.

    Args:
        kind: the kind of the field's values.
        values: the possible values, in words.
        effect: the effect of the knob, in words.
        change: `TURN` if the knob changes results, so that `verify` must find each of its values in the
            stream; else `LIVE`.
    """

    kind: Literal["choice", "duration", "size", "number"]
    values: str
    effect: str
    change: Change = field(default=Change.LIVE, kw_only=True)

    def __str__(self) -> str:
        return f"knob ({self.change}): {self.effect}"


# A checkpoint keeps a `Pinned` field. An `AtRestart` field may have another value at each start of the job.
Pinned = Annotated[Value, ChangeRule(change=Change.NEW_CHECKPOINT)]
AtRestart = Annotated[Value, ChangeRule(change=Change.RESTART)]
