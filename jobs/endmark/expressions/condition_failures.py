"""Reports on failed expressions of a pipeline file: how many failures a batch had, and the first of them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from endmark.stored_text import storable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

WHY_LENGTH = 300  # characters of DuckDB's error, which may quote data


@dataclass
class Failures:
    """Rows, or pairs of rows, of one batch on which one condition, or the expression of a column, failed.

    Args:
        field: the expression's field in the pipeline file.
        count: the number of rows or pairs.
        why: DuckDB's error for the first of them.
        at: the row or rows of the first one, each with its `stream` and, if known, `partition` and `offset`.
    """

    field: str
    count: int = 0
    why: str = ""
    at: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def add(self, count: int, why: str, at: list[dict[str, Any]]) -> None:
        """Count more failures.

        Args:
            count: the number of rows or pairs.
            why: DuckDB's error for the first of them.
            at: the row or rows of the first one, as in the class.
        """
        if not self.count:
            self.why, self.at = storable(why, WHY_LENGTH), at
        self.count += count

    def reports(self) -> list[dict[str, Any]]:
        """Return a report for the sink, or no report when there were no failures."""
        return [vars(self)] if self.count else []


def lines(reports: Iterable[Mapping[str, Any]], batch_id: int) -> list[str]:
    """Return a line for the log for each expression that failed in a batch, from the reports of its tasks."""
    by_field: dict[str, list[Mapping[str, Any]]] = {}
    for failures in reports:
        by_field.setdefault(failures["field"], []).append(failures)
    return [_line(name, several, batch_id) for name, several in by_field.items()]


def _line(name: str, reports: list[Mapping[str, Any]], batch_id: int) -> str:
    count = sum(failures["count"] for failures in reports)
    first = min(reports, key=lambda failures: str(failures["at"]))
    coordinates = " with ".join(
        f"{at['stream']} {at.get('partition', '?')}@{at.get('offset', '?')}" for at in first["at"]
    )
    times = "once" if count == 1 else f"{count:,} times"
    effect = "its rows are left out" if ".derive." in name else "does not hold there"
    text = f"{name} failed {times} and {effect}, such as on {coordinates}: {first['why']}"
    return f"batch {batch_id}: {text}"
