"""An aggregate of the final groups of another one, such as orders by their number of payments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from endmark.pipeline.groups import Groups
from endmark.pipeline.measures import FUNCTIONS
from endmark.types import ColumnType

if TYPE_CHECKING:
    from endmark.pipeline.groups import ResultGroups
    from endmark.pipeline.steps.aggregate import Measure


@dataclass(frozen=True, eq=False)
class Rollup(Groups):
    """The groups of an aggregate of final groups. Each of its rows is a final group, which comes once.

    It names columns as the table of these groups does. A group of the rollup is final once an announced
    pattern rules out later results, and with them later groups of the first aggregate: a pattern on columns
    of `by` alone, or the end of a stream that has a row in every result.

    Args:
        of: the groups that it takes.
    """

    of: ResultGroups

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the group key."""
        return self.aggregate.by

    def columns(self) -> dict[str, ColumnType]:
        """Return the columns of the groups: the group key, then the measures."""
        given = self.of.columns()
        found = {name: given[name] for name in self.key}
        for name, measure in self.aggregate.measures.items():
            found[name] = ColumnType.LONG if measure.column is None else self.kind(measure, measure.column)
        return found

    def kind(self, measure: Measure, column: str) -> ColumnType:
        """Return the type of a measure of a column of groups.

        Raises:
            ValueError: the function does not take a column of this type.
        """
        first, of = self.of.aggregate.measures.get(column), self.of.columns()[column]
        # A sum of sums is one of results, and no group has 10**10 of these. So it has digits enough.
        if FUNCTIONS[measure.function].adds and first and first.function == "sum" and first.column:
            of = self.pipeline.references.type_of(first.column)
        return measure.kind(of)

    @property
    def equals(self) -> dict[str, str]:
        """The columns of results that equal a column of the group key in every result, each with that one."""
        return {equal: name for equal, name in self.of.equals.items() if name in self.key}

    @property
    def end_by_time(self) -> bool:
        """True if progress can make groups final, since it makes those final that come in."""
        return self.of.end_by_time

    def _has_only(self, stream: str) -> bool:
        return all(origin == stream for origin, _ in self.of.origins())
