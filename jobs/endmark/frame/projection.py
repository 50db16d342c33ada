"""The columns of a frame: what they may be called, and which of a projection are plain ones of its input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType

from endmark.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame


def column(name: str) -> Column:
    """A column by its exact name, whatever characters are in it."""
    return F.col(f"`{name.replace('`', '``')}`")


def origins_of(before: DataFrame, after: DataFrame, step: str) -> list[tuple[str, str | None]]:
    """Return the columns of a projection, each with the column whose values it has; `None` for a computed
    one.

    Args:
        before: the frame that is projected.
        after: the projection.
        step: the step that asked for it, for the error.

    Raises:
        ConfigError: `after` is no projection of `before`, so control rows could be lost.
    """
    plan, source = _analyzed(after), _analyzed(before)
    if plan.nodeName() != "Project" or not plan.child().fastEquals(source):
        raise ConfigError(
            f"{step}: an expression makes other rows of a row, as explode and count do, or speaks of a "
            "column that this step makes; do it in a step of its own, or behind .df"
        )
    known = {_id(each): each.name() for each in _each(source.output())}
    return [(each.name(), known.get(_id(_plain(each)))) for each in _each(plan.projectList())]


def require_text(frame: DataFrame, punctuations: str) -> None:
    """Refuse a frame without such a column of text, by ConfigError."""
    if punctuations not in frame.columns:
        raise ConfigError(
            f"punctuations: the frame has no column {punctuations!r}; name a string column, or add one with "
            "nulls in it"
        )
    kind = frame.schema[punctuations].dataType
    if not isinstance(kind, StringType):
        raise ConfigError(
            f"punctuations: column {punctuations!r} is {kind.simpleString()}; cast it to string"
        )


def require_distinct(names: Sequence[str]) -> None:
    """Refuse two columns of one name, as Spark tells names apart, by ConfigError."""
    twice = sorted({name for name in names if [each.lower() for each in names].count(name.lower()) > 1})
    if twice:
        raise ConfigError(f"columns {', '.join(twice)} have one name; give them others by alias")


def _analyzed(frame: DataFrame) -> Any:
    return cast("Any", frame)._jdf.queryExecution().analyzed()


def _each(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(at) for at in range(sequence.size()))


def _plain(expression: Any) -> Any:
    """Return the column behind an alias."""
    return expression.child() if expression.nodeName() == "Alias" else expression


def _id(expression: Any) -> int | None:
    """The identity of a column; none of what is computed."""
    return int(expression.exprId().id()) if expression.nodeName() == "AttributeReference" else None
