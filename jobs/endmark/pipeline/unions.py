"""A union as one stream: the columns of its rows, and the promises that its members have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from endmark.pipeline.sources import EventTime

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endmark.pipeline.sources import Stream
    from endmark.types import ColumnType

_ALIKE = ("ordered", "unique", "clustered")  # each partition of the union keeps them, or none does


def united(members: Mapping[str, Stream], columns: Mapping[str, Mapping[str, ColumnType]]) -> Stream:
    """Return the stream that a union makes of its members. It has no topic of its own.

    A column is nullable if it is so in some member. The stream promises what any of its members may promise,
    so `punctuated_on` does not say that it closes these columns.

    Args:
        members: the members, by name.
        columns: the columns of each behind its row steps.
    """
    first = next(iter(members))
    nullable = {name for own in columns.values() for name, kind in own.items() if kind.nullable}
    promised = [column for stream in members.values() for column in stream.promised_on]
    return members[first].model_copy(
        update={
            "topic": "",
            "format": "json",
            "columns": {
                name: replace(kind, nullable=name in nullable) for name, kind in columns[first].items()
            },
            "event_time": EventTime(column=members[first].event_time.column, ahead=None),
            "punctuated_on": tuple(dict.fromkeys(promised)),
            "punctuation_scope": "topic",
            "closes": None,
            "forget_keys_after": None,
        }
    )


def require_alike(
    union: str, members: Mapping[str, Stream], columns: Mapping[str, Mapping[str, ColumnType]]
) -> None:
    """Refuse a union whose members do not make one stream.

    Args:
        union: the name of the step.
        members: its members, by name.
        columns: the columns of each in front of the union.

    Raises:
        ValueError: two members have other columns, or declare what a union cannot have.
    """
    field, first, *others = f"steps.{union}.union", *members
    for name in others:
        _require_columns(field, first, columns[first], name, columns[name])
        if (ours := members[first].event_time.column) != (theirs := members[name].event_time.column):
            raise ValueError(
                f"{field}: the event time is {ours!r} in {first}, but {theirs!r} in {name}; let both have "
                f"one name in streams.{first}.event_time and streams.{name}.event_time"
            )
        for promise in _ALIKE:
            if getattr(members[first], promise) != getattr(members[name], promise):
                raise ValueError(
                    f"streams.{name}.{promise}: {union} has the partitions of {first}, too, which do not "
                    f"promise the same; declare it for all members of {union}, or for none"
                )
    for name, stream in members.items():
        if stream.forget_keys_after is not None:
            raise ValueError(
                f"streams.{name}.forget_keys_after: {union} closes a key once all members have closed it, so "
                "none of them may forget it before; leave it out"
            )


def _require_columns(
    field: str,
    first: str,
    columns: Mapping[str, ColumnType],
    other: str,
    others: Mapping[str, ColumnType],
) -> None:
    """Refuse two members whose columns differ in name or type."""
    for ours, names, theirs, lacking in ((first, columns, other, others), (other, others, first, columns)):
        if missing := [name for name in names if name not in lacking]:
            raise ValueError(
                f"{field}: {ours} has column {missing[0]!r}, which {theirs} has not; derive it in a row step "
                f"of {theirs}, or drop it in one of {ours}"
            )
    for name, kind in columns.items():
        if kind.required != others[name].required:
            raise ValueError(
                f"{field}: column {name!r} is {kind.required} in {first}, but {others[name].required} in "
                f"{other}; cast it in a row step of one of them"
            )
