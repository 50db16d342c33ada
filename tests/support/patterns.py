"""Patterns over small pools of values, and rows that tell any two of them apart."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from endmark.domain import Domain
from endmark.punctuation.pattern import Anything, Between, Equals, Nothing, OneOf, Pattern, Value

DAY, MICROSECOND = timedelta(days=1), timedelta(microseconds=1)
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)

POOLS: dict[Domain, list[Any]] = {
    Domain.BOOLEAN: [False, True],
    Domain.LONG: [-(2**63), -1, 0, 1, 2, 4, 2**63 - 1],
    Domain.DOUBLE: [-1.5, -0.0, 0.0, 1, 1.5, 1e300],
    Domain.STRING: ["", "\x01", "*", "B", "a", "a, b", "aa", '"', "é", "\uffff", "😀"],
    Domain.DECIMAL: [Decimal("-1.5"), Decimal("-0.0"), 0, Decimal("1.0"), Decimal("1.00"), Decimal("1.25")],
    Domain.DATE: [date.min, *(date(2026, 1, 1) + n * DAY for n in (0, 1, 2, 4)), date.max],
    Domain.TIMESTAMP: [
        datetime.min.replace(tzinfo=UTC),
        *(NEW_YEAR + n * MICROSECOND for n in (0, 1, 2, 4)),
        datetime.max.replace(tzinfo=UTC),
    ],
}


def _beside(domain: Domain) -> list[Any]:
    """A value from every gap that the pool leaves; for doubles also the infinities and NaN."""
    pool = sorted(set(POOLS[domain]))
    steps: dict[Domain, Any] = {Domain.LONG: 1, Domain.DATE: DAY, Domain.TIMESTAMP: MICROSECOND}
    if domain in steps:
        step = steps[domain]
        return [value + step for value in pool[:-1]] + [value - step for value in pool[1:]]
    match domain:
        case Domain.STRING:
            return [value + "\x00" for value in pool]
        case Domain.DOUBLE:
            beyond = [float("inf"), float("-inf"), float("nan")]
            return [(low + high) / 2 for low, high in pairwise(pool)] + beyond
        case Domain.DECIMAL:
            return [Decimal(low + high) / 2 for low, high in pairwise(pool)] + [Decimal(-9), Decimal(9)]
    return []


ROWS: dict[Domain, list[Any]] = {domain: [None, *POOLS[domain], *_beside(domain)] for domain in Domain}


@cache
def patterns(domain: Domain) -> st.SearchStrategy[Pattern]:
    """Patterns of all kinds, in normal form or not."""
    value: st.SearchStrategy[Value] = st.sampled_from(POOLS[domain])
    end = st.none() | value
    return st.one_of(
        st.builds(Equals, value),
        st.builds(OneOf, st.frozensets(value, max_size=4)),
        st.builds(Between, end, end, st.booleans(), st.booleans()),
        st.sampled_from([Anything(), Nothing()]),
    )


@cache
def rows(domain: Domain) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(ROWS[domain]), max_size=8)


def members(pattern: Pattern, domain: Domain) -> list[int]:
    """Return the positions of the domain's `ROWS` that a pattern matches."""
    return [at for at, value in enumerate(ROWS[domain]) if pattern.matches(value)]
