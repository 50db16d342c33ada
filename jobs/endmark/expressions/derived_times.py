"""Derived times: columns that row steps derive from the event time, and that never fall while it rises.

An example is `date_trunc('minute', paid_at)`. No later row is older than the progress of its stream. So no
later row has a derived time that is less than the one of a row at progress, and progress promises something
about such columns, too. A column of a union is a derived time if it is one of each member. If members derive
it in different ways, the least of their values at progress counts. Only these expressions count, of the event
time or of a derived time:

    date_trunc(unit, time)    time_bucket(width, time)    cast(time AS date)
    time + interval           time - interval             time

An interval that is added has no months, since these differ in length. One month behind 30 January, 23:00, is
28 February, 23:00, and one month behind 31 January, 1:00, is 28 February, 1:00.

DuckDB itself evaluates the expression at progress, so a bound and the values of rows agree to the digit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from endmark.domain import Domain
from endmark.expressions.expression import constant, tree
from endmark.punctuation.pattern import Between, Nothing
from endmark.punctuation.wire_json import pattern_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from endmark.expressions.row_steps import Derivation, RowStep
    from endmark.punctuation.wire_json import PatternJson

# DuckDB's types that a time may be cast to. All of them keep the order of times.
_TIMES = {"DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"}
# Functions of several arguments: the position of the time. All other arguments are constants. The time of
# `+` may be in either position.
_TIME_ARGUMENT = {"date_trunc": 1, "datetrunc": 1, "time_bucket": 1, "date_add": 0, "-": 0, "+": 0}
# Those of them that add an interval to the time, or take it away.
_MOVES = {"date_add", "-", "+"}
_INTERVAL = pa.month_day_nano_interval()


@dataclass(frozen=True)
class TimeBound:
    """The values of a derived time that no later row has: those below a cut.

    Args:
        cut: the cut. The lowest one of the domain rules out nothing.
        domain: the domain of the derived time.
    """

    cut: int
    domain: Domain

    @property
    def pattern(self) -> Between | Nothing:
        """The values that are ruled out, as a pattern in normal form."""
        if self.cut == self.domain.bottom:
            return Nothing()
        return Between(high=self.domain.value_at(self.cut - 1))

    @property
    def written(self) -> PatternJson:
        """The pattern, ready for JSON."""
        return pattern_to_json(self.pattern, self.domain)


Chain = tuple[tuple[str, "Derivation"], ...]
"""Derived times with their names, in the order in which the row steps of a stream derive them.

Some are lost behind, and a later one may have the name of a lost one.
"""


@dataclass(frozen=True)
class DerivedTimes:
    """Some derived times of a stream or a union.

    Args:
        event_time: the column of the event time.
        chains: the derived times of the stream, or those of each member of the union.
        names: the wanted ones, each with its name in results.
    """

    event_time: str
    chains: tuple[Chain, ...]
    names: tuple[tuple[str, str], ...]

    @classmethod
    def of(
        cls, event_time: str, members: Iterable[Iterable[RowStep]], names: Mapping[str, str]
    ) -> Self | None:
        """Find the derived times of a stream or a union among some columns; `None` without any.

        Args:
            event_time: the column of the event time.
            members: the row steps of the stream, or those of each member of the union, in order.
            names: the columns that are wanted, each with its name in results.
        """
        chains: list[Chain] = []
        common = names.keys() - {event_time}
        for steps in members:
            chain, there = _chain(event_time, steps)
            chains.append(chain)
            common &= there
        found = tuple((column, name) for column, name in names.items() if column in common)
        return cls(event_time, tuple(dict.fromkeys(chains)), found) if found else None

    def bounds(self, time: int) -> dict[str, TimeBound]:
        """Return the bounds below which no row has its wanted columns, by their names in results.

        Args:
            time: an event time, in microseconds since 1970, before which there is no row. A time outside of
                the years 1 to 9999 rules out nothing.
        """
        domains = {column: derivation.kind.domain for column, derivation in self.chains[0]}
        cuts = {column: domain.bottom for column, domain in domains.items()}
        if Domain.TIMESTAMP.bottom <= time < Domain.TIMESTAMP.top:
            ways = [_evaluated(self.event_time, chain, time) for chain in self.chains]
            cuts = {column: min(way[column] for way in ways) for column, _ in self.names}
        return {name: TimeBound(cuts[column], domains[column]) for column, name in self.names}


def _chain(event_time: str, steps: Iterable[RowStep]) -> tuple[Chain, set[str]]:
    """Return the derived times of row steps, and those of them that are columns behind the last step."""
    chain: list[tuple[str, Derivation]] = []
    there = {event_time}
    for step in steps:
        rising = [(column, each) for column, each in step.derived.items() if _rises(each, there)]
        chain += rising
        there = {*there, *(column for column, _ in rising)} & step.columns.keys()
    return tuple(chain), there


@lru_cache(maxsize=256)  # all buckets of a process ask at the same progress
def _evaluated(event_time: str, chain: Chain, time: int) -> dict[str, int]:
    """Return the derived times of a row of one event time (µs); the least value in place of none that fits.

    A date is in days since 1970, and another time is in microseconds.
    """
    found = {event_time: pa.array([time], pa.timestamp("us", "UTC"))}
    cuts: dict[str, int] = {}
    for column, derivation in chain:
        row = pa.record_batch({name: found[name] for name in derivation.expression.columns})
        found[column] = derivation.expression.values(row).values.cast(derivation.kind.arrow)
        domain = derivation.kind.domain
        (ordinal,) = found[column].cast(pa.int32() if domain is Domain.DATE else pa.int64()).to_pylist()
        fits = ordinal is not None and domain.bottom <= ordinal < domain.top
        cuts[column] = ordinal if fits else domain.bottom
    return cuts


def _rises(derivation: Derivation, times: set[str]) -> bool:
    """Return whether a derived column never falls while one of some times rises."""
    named = derivation.expression.columns
    return (
        derivation.kind.domain in (Domain.DATE, Domain.TIMESTAMP)
        and len(named) == 1
        and named[0] in times
        and _rises_with_column(tree(derivation.expression.text))
    )


def _rises_with_column(part: Any) -> bool:
    """Return whether a part of an expression never falls while its one column, a time, rises."""
    match part:
        case {"class": "COLUMN_REF"}:
            return True
        case {"class": "CAST", "try_cast": False, "cast_type": {"id": kind}, "child": child}:
            return kind in _TIMES and _rises_with_column(child)
        case {"class": "FUNCTION", "function_name": str() as name, "children": list() as children}:
            return _rises_through(name.lower(), children)
    return False


def _rises_through(function: str, parts: list[Any]) -> bool:
    """Return whether a function of several arguments never falls while its one column, a time, rises."""
    if function == "+" and not _has_column(parts[0]):
        parts = parts[::-1]
    position = _TIME_ARGUMENT.get(function)
    if position is None or len(parts) <= position or not _rises_with_column(parts[position]):
        return False
    others = [*parts[:position], *parts[position + 1 :]]
    if any(map(_has_column, others)):
        return False
    if function in _MOVES:
        return all(_moves_alike(constant(each)) for each in others)
    # The origin of buckets is a time, a distance, or the name of a time zone.
    origins = map(constant, parts[2:])
    return all(_moves_alike(each) for each in origins if each is None or each.type == _INTERVAL)


def _moves_alike(distance: pa.Scalar | None) -> bool:
    """Return whether a constant moves all times by the same distance: a number of days, or no month."""
    if distance is None or not distance.is_valid:
        return False
    if distance.type == _INTERVAL:
        return int(distance.as_py().months) == 0
    return bool(pa.types.is_integer(distance.type))


def _has_column(part: Any) -> bool:
    if isinstance(part, dict):
        return part.get("class") == "COLUMN_REF" or any(map(_has_column, part.values()))
    return isinstance(part, list) and any(map(_has_column, part))
