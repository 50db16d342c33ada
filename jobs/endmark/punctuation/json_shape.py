"""The shape of a punctuation in JSON. `schemas/punctuation.v1.json` is written from these models.

A schema of all punctuations cannot know the types of columns, so it does not check the types of values.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
    field_validator,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

MEMBER = "$punctuation"


def _scalar(value: Any) -> Any:
    """Refuse null, objects and lists by one message. Pydantic would give one for each type of the union."""
    if not isinstance(value, bool | int | float | str):
        raise ValueError("must be a text, a number, true or false")  # pydantic reports a ValueError
    return value


Value = Annotated[StrictBool | StrictInt | StrictFloat | StrictStr, BeforeValidator(_scalar)]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _true(flag: Any) -> Any:
    if flag is not True:  # `Literal[True]` would take 1, too
        raise ValueError("must be true or left out")
    return flag


Flag = Annotated[Literal[True], BeforeValidator(_true)]


class AnythingShape(_Shape):
    """Every value."""

    anything: Flag


class NothingShape(_Shape):
    """No value."""

    nothing: Flag


class EqualsShape(_Shape):
    """One value."""

    equals: Value


class OneOfShape(_Shape):
    """Several values."""

    one_of: list[Value]


def _without_default(schema: dict[str, Any]) -> None:
    del schema["default"]


End = Annotated[Value | SkipJsonSchema[None], Field(json_schema_extra=_without_default)]


class Ends(_Shape):
    """An interval. An absent end is unbounded. An open end does not belong to the interval."""

    model_config = ConfigDict(
        json_schema_extra={"dependentRequired": {"from_open": ["from"], "to_open": ["to"]}}
    )

    low: End = Field(default=None, alias="from")
    high: End = Field(default=None, alias="to")
    low_open: bool = Field(default=False, alias="from_open")
    high_open: bool = Field(default=False, alias="to_open")

    @field_validator("low", "high", mode="before")
    @classmethod
    def _refuse_null(cls, end: Any) -> Any:
        if end is None:
            raise ValueError("an unbounded end is left out, not null")
        return end

    @model_validator(mode="after")
    def _check_open(self) -> Self:
        for end, openness in (("low", "low_open"), ("high", "high_open")):
            if openness in self.model_fields_set and end not in self.model_fields_set:
                raise ValueError("from_open goes with from, to_open with to")
        return self


class BetweenShape(_Shape):
    """All values of an interval."""

    between: Ends


def _only_member(pattern: Any) -> str | None:
    return next(iter(pattern), None) if isinstance(pattern, dict) and len(pattern) == 1 else None


PatternShape = Annotated[
    Annotated[AnythingShape, Tag("anything")]
    | Annotated[EqualsShape, Tag("equals")]
    | Annotated[OneOfShape, Tag("one_of")]
    | Annotated[BetweenShape, Tag("between")]
    | Annotated[NothingShape, Tag("nothing")],
    Discriminator(
        _only_member,
        custom_error_type="pattern",
        custom_error_message="a pattern has one member: anything, equals, one_of, between or nothing",
    ),
]


class PunctuationShape(_Shape):
    """No more rows match a pattern in every attribute. An attribute that is not named matches anything."""

    patterns: Annotated[dict[str, PatternShape], Field(min_length=1, alias=MEMBER)]


def schema() -> dict[str, Any]:
    """Return the JSON Schema of punctuations."""
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return dialect | PunctuationShape.model_json_schema()


if __name__ == "__main__":  # prints the JSON Schema that `make schemas` keeps in schemas/
    print(json.dumps(schema(), indent=2))
