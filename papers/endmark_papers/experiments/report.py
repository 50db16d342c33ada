"""The findings of an experiment, for programs as JSON and for people as tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import mean, stdev
from typing import NamedTuple

import rich.table
from pydantic import BaseModel, ConfigDict
from rich import box

# Student's t for a two-sided 95 % interval, by the number of values; with more than 10 it is at most 2.23.
_STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}
_STUDENT_BEYOND = 2.23


def half_interval(values: Sequence[float]) -> float:
    """Return half of the 95 % interval of a mean; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    return _STUDENT.get(len(values), _STUDENT_BEYOND) * stdev(values) / math.sqrt(len(values))


class Figures(BaseModel):
    """The base of all findings, which hold plain values only, so that findings can be compared."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Spread(Figures):
    """The mean and the extremes of a quantity over several seeds."""

    mean: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float], digits: int) -> Spread:
        found = list(values)
        return cls(
            mean=round(mean(found), digits), least=round(min(found), digits), most=round(max(found), digits)
        )

    def text(self, digits: int) -> str:
        return f"{self.mean:,.{digits}f} ({self.least:,.{digits}f} to {self.most:,.{digits}f})"


class Table(NamedTuple):
    """A table of texts under headings, in which the first column has names and the others have numbers."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        rule = ["---", *["---:"] * (len(self.headings) - 1)]
        return "\n".join(f"| {' | '.join(row)} |" for row in (self.headings, rule, *self.rows))

    def rich(self) -> rich.table.Table:
        table = rich.table.Table(
            title=self.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True
        )
        for position, heading in enumerate(self.headings):
            table.add_column(heading, justify="right" if position else "left", no_wrap=not position)
        for row in self.rows:
            table.add_row(*row)
        return table
