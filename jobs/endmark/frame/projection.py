"""The columns of a frame: which names they may have, and which columns of its input a projection has kept."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType

from endmark.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame


def column(name: str) -> Column:
    """Return a column by its exact name, which may have any characters."""
    return F.col(f"`{name.replace('`', '``')}`")


def origins_of(before: DataFrame, after: DataFrame, step: str) -> list[tuple[str, str | None]]:
    """Return the columns of a projection, each with the column of its input whose values it has.

    Args:
        before: the frame that is projected.
        after: the projection.
        step: the name of the step, for the error.

    Returns:
        Pairs of names; the second is `None` for a computed column.

    Raises:
        ConfigError: `after` is no projection of `before`, so control rows could be lost.
    """
    plan, source = _analyzed(after), _analyzed(before)
    if plan.nodeName() != "Project" or not plan.child().fastEquals(source):
        raise ConfigError(
            f"{step}: an expression makes other rows of a row, as explode and count do, or speaks of a "
            "column that this step makes, or of one that Spark hides, as _metadata; do it in a step of its "
            "own, behind .df, or before the DataFrame becomes a PunctuatedFrame"
        )
    known = {_id(each): each.name() for each in _each(source.output())}
    return [(each.name(), known.get(_id(_plain(each)))) for each in _each(plan.projectList())]


def require_native(projection: DataFrame, step: str) -> None:
    """Check that a projection calls no Python function.

    Spark calls Python for every row before it evaluates the rest of an expression. So the function would also
    get control rows, even inside `when`, and fail at the first of them.

    Raises:
        ConfigError: an expression calls a Python function.
    """
    jvm: Any = projection.sparkSession._jvm
    python = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.PYTHON_UDF()
    if any(each.containsPattern(python) for each in _each(_analyzed(projection).expressions())):
        raise ConfigError(
            f"{step}: Spark would call a Python function for control rows, too, whose columns are null; add "
            "its result to the DataFrame before it becomes a PunctuatedFrame, by a function that takes nulls"
        )


def require_text(frame: DataFrame, punctuations: str) -> None:
    """Check that a frame has a column of punctuations.

    Raises:
        ConfigError: the frame has no such column, or the column is no string.
    """
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


def require_distinct(names: Sequence[str], mending: str = "others, as by alias") -> None:
    """Check that no two columns have the same name; Spark ignores the case of letters.

    Args:
        names: the names of the columns.
        mending: what to give the columns then, for the error.

    Raises:
        ConfigError: two columns have the same name.
    """
    counts = Counter(name.lower() for name in names)
    twice = sorted(name for name in names if counts[name.lower()] > 1)
    if twice:
        raise ConfigError(f"columns {', '.join(twice)} have one name; give them {mending}")


def _analyzed(frame: DataFrame) -> Any:
    return cast("Any", frame)._jdf.queryExecution().analyzed()


def _each(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(at) for at in range(sequence.size()))


def _plain(expression: Any) -> Any:
    """The expression behind an alias."""
    return expression.child() if expression.nodeName() == "Alias" else expression


def _id(expression: Any) -> int | None:
    """Spark's identity of a column; `None` for a computed expression."""
    return int(expression.exprId().id()) if expression.nodeName() == "AttributeReference" else None
