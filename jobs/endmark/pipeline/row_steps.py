"""Checks the row steps of a stream: their expressions, their columns, and the columns that must stay."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from endmark.pipeline.sources import COORDINATES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from endmark.expressions.row_steps import RowStep as CheckedRowStep
    from endmark.pipeline.sources import Stream
    from endmark.pipeline.steps.rows import RowStep
    from endmark.types import ColumnType

_Pairs = tuple[tuple[str, str], ...]
_Step = tuple[str, str | None, _Pairs, tuple[str, ...], tuple[str, ...]]


def checked(stream: str, declared: Stream, steps: Mapping[str, RowStep]) -> tuple[CheckedRowStep, ...]:
    """Return the row steps of a stream with the columns behind each.

    Args:
        stream: the name of the stream.
        declared: the stream.
        steps: its row steps by name, in order.

    Raises:
        ConfigError: an expression is none over its columns, or a column is not there.
        ValueError: a column that must stay is lost, or has a name that is taken.
    """
    if not steps:
        return ()
    _check_deduplicated_last(steps)
    _check_stays(stream, declared, steps.items())
    written = tuple(
        (name, step.where, tuple(step.derive.items()), step.select, step.drop) for name, step in steps.items()
    )
    return _chain(tuple(declared.value_types.items()), written)


def _check_deduplicated_last(steps: Mapping[str, RowStep]) -> None:
    """Refuse a row step behind one that drops duplicates: it would run before, with the others."""
    for (name, step), behind in zip(steps.items(), list(steps)[1:], strict=False):
        if step.deduplicate is not None:
            raise ValueError(
                f"steps.{name}.deduplicate: rows are deduplicated behind all row steps, and {behind} takes "
                f"them; write steps.{behind}.deduplicate instead, or let {behind} stand before {name}"
            )


def _check_stays(stream: str, declared: Stream, steps: Iterable[tuple[str, RowStep]]) -> None:
    needed = {declared.event_time.column: "its event time"}
    promising = {
        "closes.on": declared.closes.on if declared.closes else (),
        "clustered": declared.clustered,
        "unique": declared.unique,
        "ordered": tuple(declared.ordered),
        "punctuated_on": declared.punctuated_on,
    }
    needed |= {column: f"in streams.{stream}.{field}" for field, on in promising.items() for column in on}
    for name, step in steps:
        chosen = step.select or needed
        lost = [column for column in needed if column in step.drop or column not in chosen]
        if lost:
            field = "drop" if step.drop else "select"
            why = ", ".join(f"{column!r} is {needed[column]}" for column in lost)
            raise ValueError(
                f"steps.{name}.{field}: columns are lost that must stay: {why}; keep them, or give them "
                f"other names by streams.{stream}.taken_from"
            )
        for column in step.derive:
            if column in COORDINATES:
                raise ValueError(
                    f"steps.{name}.derive.{column}: this name is taken by the record's coordinates; name "
                    "another one"
                )


# The columns of a pipeline are asked for often, and DuckDB takes a millisecond for each expression.
@lru_cache(maxsize=1_000)
def _chain(
    columns: tuple[tuple[str, ColumnType], ...], steps: tuple[_Step, ...]
) -> tuple[CheckedRowStep, ...]:
    # Most pipelines have no row steps, and are checked without Arrow and DuckDB.
    from endmark.expressions.row_steps import RowStep as CheckedRowStep

    found: list[CheckedRowStep] = []
    there = dict(columns)
    for name, where, derive, select, drop in steps:
        step = CheckedRowStep.of(name, there, where=where, derive=dict(derive), select=select, drop=drop)
        found.append(step)
        there = dict(step.columns)
    return tuple(found)
