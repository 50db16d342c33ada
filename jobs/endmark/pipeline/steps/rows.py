"""The step that filters rows, derives and chooses columns, and drops duplicates."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from endmark.pipeline.change_rules import Pinned
from endmark.pipeline.fields import AnyReferences, Duration, Expression, Model, Name, Names


class Deduplicate(Model):
    """The rule by which rows are duplicates: those equal to an earlier one of their partition in `by`.

    The first row of each value of `by` passes, and later ones are dropped. With `within`, a row passes again
    if its event time is more than `within` after that of the last one that passed. `by` has all columns of
    the join key. A null in another column is a value of its own. Without `within`, values are remembered
    until the stream closes their key.
    """

    by: Pinned[Names]
    within: Pinned[Duration | None] = None


class RowStep(Model):
    """A step that filters the rows of a stream or join, derives and chooses columns, and drops duplicates.

    It applies its parts in this order: `where`, `derive`, `select` or `drop`, then `deduplicate`. `where` is
    an SQL condition; rows of which it is not true are filtered. `derive` has an SQL expression for each
    derived column. `select` names the columns to keep, `drop` those to lose. The event time, and columns on
    which the stream promises something, stay. A row on which an expression fails is a dead letter. Row steps
    stand in front of lookups, behind a lookup of a stream, or behind a join. Only the last one in front of a
    stream's lookups has `deduplicate`.

    Behind a lookup or a join, columns are named as in measures: `orders.total`, or `total` if only one
    stream, relation or join has it. So a step behind a lookup can replace the natural key of a row by the
    warehouse's key: it drops the column by which the lookup asked. Columns that are derived behind a join
    come from it, as `fulfilled.late`. Columns of the join's key stay, too. A result on which an expression
    fails is left out and counted.
    """

    kind: ClassVar[Literal["rows"]] = "rows"
    source: Pinned[Annotated[Name, Field(alias="from")]]
    where: Pinned[Expression | None] = None
    derive: Pinned[Annotated[dict[Name, Expression], Field(default_factory=dict)]]
    select: Pinned[AnyReferences] = ()
    drop: Pinned[AnyReferences] = ()
    deduplicate: Pinned[Deduplicate | None] = None

    @model_validator(mode="after")
    def _check_choice(self) -> Self:
        if self.select and self.drop:
            raise ValueError("drop: `select` names all columns that stay; leave one of the two out")
        return self

    @property
    def inputs(self) -> tuple[str, ...]:
        """The one stream or step whose rows the step takes."""
        return (self.source,)
