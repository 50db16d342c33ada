"""Checks the row steps behind a join or a lookup: their expressions, and the columns that must stay.

Expressions name a column as measures do: `origin.column`, or the column alone if one origin has it. A derived
column comes from the join or stream whose rows these are, so it is `<join or stream>_<column>` in tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from endmark.pipeline.sources import COORDINATES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endmark.expressions.row_steps import RowStep as CheckedRowStep
    from endmark.pipeline.steps.rows import RowStep
    from endmark.types import ColumnType

_Columns = tuple[tuple[str, "ColumnType"], ...]
_Origins = tuple[tuple[str, _Columns], ...]
_Pairs = tuple[tuple[str, str], ...]
_Step = tuple[str, str | None, _Pairs, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class SteppedResults:
    """Rows behind row steps: the results of a join, or rows of a stream that have been looked up.

    Args:
        steps: the row steps, over columns named as in results.
        columns: the columns of the rows behind the last one.
        origins: the same columns by their names in the file, by stream, relation or join. Coordinates are not
            among them.
    """

    steps: tuple[CheckedRowStep, ...]
    columns: Sequence[tuple[str, ColumnType]]
    origins: Mapping[str, Mapping[str, ColumnType]]


def stepped_results(
    join: str,
    key: Sequence[str],
    columns: Sequence[tuple[str, ColumnType]],
    origins: Mapping[str, Mapping[str, ColumnType]],
    steps: Mapping[str, RowStep],
    stays: Mapping[str, str],
) -> SteppedResults:
    """Return the results of a join, or rows that have been looked up, behind row steps.

    Args:
        join: the name of the join; of the stream, if the rows are looked up.
        key: the columns of the join's key.
        columns: the columns of the rows, named as in results.
        origins: the same columns, as `SteppedResults` has them.
        steps: the row steps by name, in order.
        stays: why a column must stay, by its name in results.

    Raises:
        ConfigError: an expression is none over its columns.
        ValueError: a column that must stay is lost, a column is not there or has a name that is taken, or a
            step drops duplicates.
    """
    if not steps:
        return SteppedResults((), columns, origins)
    for name, step in steps.items():
        if step.deduplicate is not None:
            raise ValueError(
                f"steps.{name}.deduplicate: results of {join} are no duplicates of each other; deduplicate a "
                "stream before it is joined"
            )
        for column in step.derive:
            if column in (*key, *COORDINATES):
                taken = "is taken by the key of the join" if column in key else "is taken by coordinates"
                raise ValueError(f"steps.{name}.derive.{column}: this name {taken}; name another one")
    written = tuple(
        (name, step.where, tuple(step.derive.items()), step.select, step.drop) for name, step in steps.items()
    )
    by_origin = tuple((origin, tuple(of.items())) for origin, of in origins.items())
    return _chain(join, tuple(columns), by_origin, written, tuple(stays.items()))


# The columns of results are asked for often, and DuckDB takes a millisecond for each expression.
@lru_cache(maxsize=1_000)
def _chain(
    join: str, columns: _Columns, origins: _Origins, steps: tuple[_Step, ...], stays: _Pairs
) -> SteppedResults:
    # Most pipelines have no row steps, and are checked without Arrow and DuckDB.
    from endmark.expressions.expression import renamed
    from endmark.expressions.row_steps import RowStep as CheckedRowStep

    there, known = dict(columns), _Known({origin: dict(of) for origin, of in origins})
    names = [name for name, _ in columns]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(
            f"steps.{steps[0][0]}.from: results of {join} have two columns {twice!r}; rename a stream, a "
            "relation or a column"
        )
    found: list[CheckedRowStep] = []
    for name, where, derive, select, drop in steps:
        field = f"steps.{name}"
        written = {
            column: renamed(text, known.in_results, f"{field}.derive.{column}") for column, text in derive
        }
        condition = None if where is None else renamed(where, known.in_results, f"{field}.where")
        derived = CheckedRowStep.of(name, there, where=condition, derive=written, prefix=f"{join}_").columns
        known = known.with_derived(join, {column: derived[f"{join}_{column}"] for column in written})
        lost = known.lost(select, drop, f"{field}.{'drop' if drop else 'select'}", dict(stays))
        known = known.without(lost)
        step = CheckedRowStep.of(
            name,
            there,
            where=condition,
            derive=written,
            drop=[f"{origin}_{column}" for origin, column in lost],
            prefix=f"{join}_",
        )
        there = dict(step.columns)
        found.append(step)
    return SteppedResults(
        tuple(found), [(column, kind.required) for column, kind in there.items()], known.origins
    )


@dataclass(frozen=True)
class _Known:
    """The columns that a step may name, by origin."""

    origins: dict[str, dict[str, ColumnType]]

    def in_results(self, reference: str) -> str:
        """Return the name in results of a column that a reference names.

        Raises:
            ValueError: there is no such column, or several have this name.
        """
        return "_".join(self._resolved(reference))

    def with_derived(self, join: str, derived: dict[str, ColumnType]) -> _Known:
        return _Known({**self.origins, join: self.origins.get(join, {}) | derived}) if derived else self

    def lost(
        self, select: Sequence[str], drop: Sequence[str], field: str, stays: Mapping[str, str]
    ) -> list[tuple[str, str]]:
        """Return the columns that a choice of columns loses, by origin and name.

        Raises:
            ValueError: there is no such column, or it must stay.
        """
        try:
            named = [self._resolved(reference) for reference in select or drop]
        except ValueError as error:
            raise ValueError(f"{field}: {error}") from None
        every = [(origin, column) for origin, of in self.origins.items() for column in of]
        found = [each for each in every if each not in named] if select else named
        must = [(".".join(each), why) for each in found if (why := stays.get("_".join(each)))]
        if must:
            listed = ", ".join(f"{column!r} is {why}" for column, why in must)
            raise ValueError(f"{field}: columns are lost that must stay: {listed}; keep them")
        return found

    def without(self, lost: Sequence[tuple[str, str]]) -> _Known:
        return _Known(
            {
                origin: {column: kind for column, kind in of.items() if (origin, column) not in lost}
                for origin, of in self.origins.items()
            }
        )

    def _resolved(self, reference: str) -> tuple[str, str]:
        """Return the origin and the name of a column. Letters may be of any case, as in SQL."""
        origin, dot, name = reference.lower().rpartition(".")
        found = [
            (each, column)
            for each, of in self.origins.items()
            for column in of
            if column.lower() == name and (not dot or each.lower() == origin)
        ]
        if len(found) > 1:
            several = " and ".join(map(".".join, found))
            raise ValueError(f"{reference!r} may be one of {several}; write the one that is meant")
        if not found:
            there = ", ".join(f"{each}.{column}" for each, of in self.origins.items() for column in of)
            raise ValueError(f"no column {reference!r}; there are {there}")
        return found[0]
