"""The step that makes one stream of several ones."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from endmark.pipeline.change_rules import Pinned
from endmark.pipeline.fields import AnyNames, Model


class UnionStep(Model):
    """A step that makes one stream of several ones, such as the orders of a web shop and those of stores.

    `union` names its members: streams, or row steps of streams. Behind their row steps they have the same
    columns, of the same types. The event time has one name, too. The rows are those of the union from then
    on, and so are its columns: `merged.order_id`. Row steps directly behind the union run on the rows of each
    member.

    A promise holds for its own partition. So the union closes a key once all of its members have closed it.
    """

    kind: ClassVar[Literal["union"]] = "union"
    inputs: Pinned[Annotated[AnyNames, Field(alias="union", min_length=2)]]
