"""Patterns as sets: every law is checked by membership, on rows that tell any two patterns apart."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endmark.domain import Domain, PunctuationError
from endmark.punctuation.algebra import meet, normal
from endmark.punctuation.pattern import Anything, Between, Equals, Nothing, OneOf, Pattern
from support.patterns import ROWS, members, patterns

every_domain = pytest.mark.parametrize("domain", list(Domain))


@every_domain
@settings(deadline=None)
@given(data=st.data())
def test_normal_form_is_canonical(domain: Domain, data: st.DataObject) -> None:
    """Normal forms match the same values as what they stand for, and are equal just when the sets are."""
    one, other = data.draw(patterns(domain)), data.draw(patterns(domain))
    plain = normal(one, domain)

    assert members(plain, domain) == members(one, domain)
    assert normal(plain, domain) == plain
    same = members(one, domain) == members(other, domain)
    assert (plain == normal(other, domain)) is same


@every_domain
@settings(deadline=None)
@given(data=st.data())
def test_meet_is_intersection(domain: Domain, data: st.DataObject) -> None:
    one, other = data.draw(patterns(domain)), data.draw(patterns(domain))

    common = set(members(one, domain)) & set(members(other, domain))

    assert members(meet(one, other, domain), domain) == sorted(common)
    assert (meet(one, other, domain) == Nothing()) is (not common)


@every_domain
@settings(deadline=None)
@given(data=st.data())
def test_meet_laws(domain: Domain, data: st.DataObject) -> None:
    """Commutative, associative, idempotent; `Anything` is neutral, `Nothing` absorbs."""
    a, b, c = (data.draw(patterns(domain)) for _ in range(3))

    assert meet(a, b, domain) == meet(b, a, domain)
    assert meet(a, meet(b, c, domain), domain) == meet(meet(a, b, domain), c, domain)
    assert meet(a, a, domain) == meet(a, Anything(), domain) == normal(a, domain)
    assert meet(a, Nothing(), domain) == Nothing()


@every_domain
@settings(deadline=None)
@given(data=st.data())
def test_meet_with_a_superset_is_the_set_itself(domain: Domain, data: st.DataObject) -> None:
    one, other = data.draw(patterns(domain)), data.draw(patterns(domain))

    included = set(members(one, domain)) <= set(members(other, domain))

    assert (meet(one, other, domain) == normal(one, domain)) is included


@pytest.mark.parametrize(
    ("pattern", "domain", "expected"),
    [
        (Between(1, 1), Domain.LONG, Equals(1)),
        (OneOf(frozenset({1})), Domain.LONG, Equals(1)),
        (OneOf(frozenset()), Domain.LONG, Nothing()),
        (Between(3, 1), Domain.LONG, Nothing()),
        (Between(1, 2, low_open=True, high_open=True), Domain.LONG, Nothing()),
        (Between(1, 2, low_open=True, high_open=True), Domain.DOUBLE, Between(1.0, 2.0, True, True)),
        (Between(0, 9, low_open=True, high_open=True), Domain.LONG, Between(1, 8)),
        (OneOf(frozenset({1, 2, 3})), Domain.LONG, Between(1, 3)),
        (OneOf(frozenset({1, 2, 3})), Domain.DOUBLE, OneOf(frozenset({1.0, 2.0, 3.0}))),
        (Between(-(2**63), 2**63 - 1), Domain.LONG, Between()),
        (Between(2**63 - 1, None, low_open=True), Domain.LONG, Nothing()),
        (OneOf(frozenset({False, True})), Domain.BOOLEAN, Between()),
        (Between(None, ""), Domain.STRING, Equals("")),
        (Between(None, "", high_open=True), Domain.STRING, Nothing()),
        (Between(date(2026, 1, 1), date(2026, 1, 3), True, True), Domain.DATE, Equals(date(2026, 1, 2))),
        (Between(), Domain.LONG, Between()),
        (Anything(), Domain.LONG, Anything()),
    ],
)
def test_normal_form(pattern: Pattern, domain: Domain, expected: Pattern) -> None:
    found = normal(pattern, domain)

    assert found == expected
    assert repr(found) == repr(expected)  # 1 == 1.0 == True


@pytest.mark.parametrize(
    ("value", "domain", "error"),
    [
        (1.5, Domain.LONG, "1.5 is no long"),
        (1.0, Domain.LONG, "1.0 is no long"),
        (True, Domain.LONG, "True is no long"),
        (2**63, Domain.LONG, "does not fit into 64 bits"),
        (2**53 + 1, Domain.DOUBLE, "between two doubles"),
        (10**400, Domain.DOUBLE, "between two doubles"),
        (Decimal(1), Domain.DOUBLE, "is no double"),
        (Decimal("1e38"), Domain.DECIMAL, "38 digits to write out"),
        (Decimal("1e-39"), Domain.DECIMAL, "38 digits to write out"),
        (Decimal(10**38 + 1), Domain.DECIMAL, "more than 38 digits"),
        ("\ud800", Domain.STRING, "half a surrogate pair"),
        (date(2026, 1, 1), Domain.TIMESTAMP, "is no timestamp"),
    ],
)
def test_refused_by_domain(value: Any, domain: Domain, error: str) -> None:
    with pytest.raises(PunctuationError, match=error):
        normal(Equals(value), domain)


@every_domain
def test_rows_tell_patterns_apart(domain: Domain) -> None:
    """The laws above are only as good as their rows: one lies on each side of every value in the pools."""
    known = [value for value in ROWS[domain] if value is not None and value == value]  # noqa: PLR0124

    assert len(set(known)) >= 2
    assert members(Anything(), domain) == list(range(len(ROWS[domain])))
    assert len(members(Between(), domain)) == len(known)
