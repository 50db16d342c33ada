"""An aggregate of the final groups of another one, such as orders by their number of payments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from endmark.pipeline.fields import require_column, require_key_column
from endmark.pipeline.groups import Groups
from endmark.pipeline.measures import FUNCTIONS
from endmark.types import ColumnType

if TYPE_CHECKING:
    from endmark.pipeline.groups import ResultGroups
    from endmark.pipeline.steps import Measure


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
            found[name] = ColumnType.LONG if measure.column is None else self._kind(measure, measure.column)
        return found

    def _kind(self, measure: Measure, column: str) -> ColumnType:
        """Return the type of a measure of a column of groups.

        Raises:
            ValueError: the function does not take a column of this type.
        """
        first, of = self.of.aggregate.measures.get(column), self.of.columns()[column]
        # A sum of sums is one of results, and no group has 10**10 of these. So it has digits enough.
        if FUNCTIONS[measure.function].adds and first and first.function == "sum" and first.column:
            of = self.pipeline.type_of(first.column)
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

    def check(self) -> None:
        """Check the columns that the rollup names, and that its groups can be final or are shown before.

        Raises:
            ValueError: there is no such column, its type does not fit, a measure goes by a place that groups
                do not have, the key has all of the first one, the name is taken, or no group would ever be
                final and no table has the groups so far.
        """
        given, field = self.of.columns(), self.field
        for name in self.key:
            require_column(given, name, f"{field}.by")
            if given[name].many:
                raise ValueError(f"{field}.by: column {name!r} is {given[name]}; name one of single values")
            require_key_column(given, name, f"{field}.by")
        for name, measure in self.aggregate.measures.items():
            if measure.column is not None:
                self._check_measure(f"{field}.measures.{name}", measure, measure.column)
        self._check_key(f"{field}.by")
        if not (self.closers or self.times or self.is_running):
            raise ValueError(
                f"{field}.by: no stream promises anything about {', '.join(self.key)} that holds for all "
                f"results, so no group would ever close; write the groups so far: tables.{self.step}: "
                f"{{from: {self.step}, mode: upsert}}"
            )

    def _check_key(self, field: str) -> None:
        # Keys of the join that are closed one by one are announced in their buckets alone, and no pattern
        # tells the stage of the rollup about them. So its groups by the whole join key would stay for ever.
        if set(self.key) >= set(self.of.key):
            raise ValueError(
                f"{field}: {', '.join(self.key)} has the whole key of {self.of.step}, so each group "
                "would have one row; leave a column of it out"
            )

    def _check_measure(self, field: str, measure: Measure, column: str) -> None:
        given = self.of.columns()
        require_column(given, column, field)
        if FUNCTIONS[measure.function].by_place:
            raise ValueError(
                f"{field}: {measure.function} goes by the place of a row, and groups of {self.of.step} "
                "have none; write min or max"
            )
        if given[column].many:
            raise ValueError(f"{field}: column {column!r} is {given[column]}; name one of single values")
        try:
            self._kind(measure, column)
        except ValueError as error:
            raise ValueError(f"{field}: {error}") from error
