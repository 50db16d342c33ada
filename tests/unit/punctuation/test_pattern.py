"""Which values a pattern matches, and which patterns there cannot be."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from endmark.domain import Domain, PunctuationError, common_domain
from endmark.punctuation.pattern import Anything, Between, Equals, Nothing, OneOf, Pattern

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NAN = float("nan")


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        (Anything(), [None, NAN, 1, "a"], []),
        (Nothing(), [], [None, NAN, 1, "a"]),
        (Equals(1), [1, 1.0, Decimal("1.0")], [None, NAN, 2, True, "1"]),
        (Equals(True), [True], [None, 1, 1.0, False]),
        (Equals(0.0), [0.0, -0.0, 0], [None, NAN, False, 1e-300]),
        (Equals(NOON), [NOON, NOON.astimezone(timezone(timedelta(hours=2)))], [None, NOON.date()]),
        (OneOf(frozenset({1, 2.5})), [1, 2.5, 1.0], [None, NAN, True, 2, "1"]),
        (OneOf(frozenset({False})), [False], [0, None]),
        (OneOf(frozenset()), [], [None, 0]),
        (Between(1, 3), [1, 2, 3, 1.5], [None, NAN, 0, 4, True, "2"]),
        (Between(1, 3, low_open=True, high_open=True), [2, 1.5], [1, 3]),
        (Between(1, None), [1, float("inf")], [0, None, NAN, "z"]),
        (Between(None, 1, high_open=True), [0, float("-inf")], [1, None, NAN, False]),
        (Between(), [0, NOON, "", True], [None, NAN]),
        (Between("a", "b"), ["a", "az", "b"], ["", "bb", 1, None]),
        (Between(date(2026, 1, 1), None), [date(2026, 1, 2)], [date(2025, 1, 1), NOON, None]),
    ],
)
def test_matches(pattern: Pattern, inside: list[Any], outside: list[Any]) -> None:
    assert [value for value in inside if not pattern.matches(value)] == []
    assert [value for value in outside if pattern.matches(value)] == []


@pytest.mark.parametrize(
    ("kind", "values", "error"),
    [
        (Equals, (None,), "None is NoneType"),
        (Equals, (NAN,), "finite numbers"),
        (Equals, (float("-inf"),), "finite numbers"),
        (Equals, (Decimal("NaN"),), "finite numbers"),
        (Equals, (datetime(2026, 1, 1),), "times with a zone"),  # noqa: DTZ001
        (Equals, (b"a",), "is bytes"),
        (OneOf, (frozenset({1, "a"}),), "cannot mix long and string"),
        (OneOf, (frozenset({True, 2}),), "cannot mix boolean and long"),
        (OneOf, (frozenset({1.5, Decimal(2)}),), "cannot mix decimal and double"),
        (Between, (1, "a"), "cannot mix"),
        (Between, (date(2026, 1, 1), NOON), "cannot mix date and timestamp"),
        (Between, (NAN, None), "finite numbers"),
    ],
)
def test_refused(kind: Any, values: tuple[Any, ...], error: str) -> None:
    """Null and NaN equal nothing, and mixtures fit no column: such a promise is a mistake of its producer."""
    with pytest.raises(PunctuationError, match=error):
        kind(*values)


def test_absent_end_is_neither_open_nor_closed() -> None:
    assert Between(None, None, low_open=True, high_open=True) == Between()


def test_domain_of_several_values() -> None:
    assert common_domain({Domain.LONG, Domain.DOUBLE}) is Domain.DOUBLE
    assert common_domain({Domain.LONG, Domain.DECIMAL}) is Domain.DECIMAL
    assert common_domain({Domain.STRING}) is Domain.STRING
    with pytest.raises(PunctuationError, match="cannot mix"):
        common_domain({Domain.STRING, Domain.LONG})


@pytest.mark.parametrize(
    "pattern", [Anything(), Nothing(), Equals(1), OneOf(frozenset({1})), Between(1, 2, True)]
)
def test_copies(pattern: Pattern) -> None:
    assert deepcopy(pattern) == pattern
    assert hash(deepcopy(pattern)) == hash(pattern)
