"""The step that groups rows, and the measures of its groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from endmark.domain import DECIMAL_DIGITS, Domain
from endmark.pipeline.change_rules import Pinned
from endmark.pipeline.fields import Model, Name, References
from endmark.pipeline.measures import FUNCTIONS
from endmark.types import ColumnType

if TYPE_CHECKING:
    FunctionName = str
else:
    FunctionName = Literal[tuple(FUNCTIONS)]


_OF_A_COLUMN = ", ".join(name for name in FUNCTIONS if name != "count")
_FORMS = f"write `count`, or {{f: stream.column}} where f is {_OF_A_COLUMN}"
_ADDABLE_DIGITS = DECIMAL_DIGITS - 10  # no group has 10**10 results


class Measure(Model):
    """One column of a closed group: the `count` of its results, or a function of one of their columns.

    The column is written `stream.column` or `relation.column`, or `column` if only one of these has it. Nulls
    are ignored: a group without a value has null, or 0 for `count_distinct`, or an empty array for `sorted`.
    While the group is open, `count_distinct` keeps each value once, and `sorted` with its number.
    """

    function: Pinned[
        Annotated[
            FunctionName,
            Field(description="\n".join(f"`{name}`: {each.doc}" for name, each in FUNCTIONS.items())),
        ]
    ]
    column: Pinned[str | None] = None

    @model_validator(mode="after")
    def _check_column(self) -> Self:
        if (self.function == "count") != (self.column is None):
            raise ValueError(_FORMS)
        return self

    def kind(self, of: ColumnType) -> ColumnType:
        """Return the type of the measure, given the type of its column.

        Raises:
            ValueError: the function does not take a column of this type.
        """
        function = FUNCTIONS[self.function]
        if function.adds and of.domain not in (Domain.LONG, Domain.DOUBLE, Domain.DECIMAL):
            raise ValueError(f"{self.column} is {of}, which does not add up; {self.function} takes numbers")
        if function.adds and of.precision > _ADDABLE_DIGITS:
            raise ValueError(
                f"{self.column} is {of}, whose sum could need more than {DECIMAL_DIGITS} digits; declare it "
                f"with at most {_ADDABLE_DIGITS}"
            )
        return function.result(of)


def _measure(value: Any) -> Any:
    match value:
        case str() if value == "count":  # whatever is no text may have an equality of its own
            return {"function": "count"}
        case Measure() | {"function": _}:
            return value
        case dict() if len(value) == 1 and value.keys() <= FUNCTIONS.keys():
            ((function, column),) = value.items()
            return {"function": function, "column": column}
    raise ValueError(_FORMS)


_AnyForm = Annotated[
    Measure,
    BeforeValidator(_measure, json_schema_input_type=Measure | Literal["count"] | dict[FunctionName, str]),
]


def _not_of_all(by: Any) -> Any:
    if by == []:
        raise ValueError(
            "no column is named; for one group of all rows, derive a constant by a row step, such as "
            '{all: "1"}, and name it here'
        )
    return by


class Aggregate(Model):
    """The closing group-by over results: a group is emitted once, when nothing more can come for it.

    `by` names columns as measures do; a column of the join key is written without a stream. Groups by the
    join key are final when the key is. Groups by other columns are final when a stream has promised them by a
    pattern on these columns, or has ended. Groups by a time that a row step makes of a stream's event time,
    such as `date_trunc('minute', at)`, are final when progress is beyond it. If nothing makes groups final, a
    table of `mode: upsert` or `changes` has them so far, and so has a topic of `mode: changes`.

    The aggregate of an aggregate takes its final groups. It names columns as their table does.
    """

    by: Pinned[Annotated[References, BeforeValidator(_not_of_all)]]
    measures: Pinned[Annotated[dict[Name, _AnyForm], Field(min_length=1)]]


class AggregateStep(Model):
    """A step that groups its rows."""

    kind: ClassVar[Literal["aggregate"]] = "aggregate"
    source: Pinned[Annotated[Name, Field(alias="from")]]
    aggregate: Aggregate

    @property
    def inputs(self) -> tuple[str, ...]:
        """The one stream or step whose rows are grouped."""
        return (self.source,)
