"""Punctuations as sets of rows, on a world of two attributes that is small enough to list."""

from __future__ import annotations

import subprocess
import sys
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endmark.domain import Domain, PunctuationError
from endmark.punctuation.pattern import Anything, Between, Equals, Nothing, OneOf, Pattern
from endmark.punctuation.punctuation import Origin, Punctuation
from support.patterns import ROWS, patterns

DOMAINS = {"item": Domain.LONG, "price": Domain.DOUBLE}
WORLD = [{"item": item, "price": price} for item, price in product(ROWS[Domain.LONG], ROWS[Domain.DOUBLE])]

punctuations = st.builds(
    Punctuation.of,
    st.just("bids"),
    st.fixed_dictionaries({}, optional={name: patterns(domain) for name, domain in DOMAINS.items()}),
)


def matched(punctuation: Punctuation) -> set[int]:
    return {at for at, row in enumerate(WORLD) if punctuation.matches(row)}


@settings(deadline=None)
@given(one=punctuations, other=punctuations)
def test_laws(one: Punctuation, other: Punctuation) -> None:
    """Meet is intersection, implies inclusion, and the normal form is canonical."""
    mine, theirs = matched(one), matched(other)

    assert matched(one.meet(other, DOMAINS)) == mine & theirs
    assert one.meet(other, DOMAINS) == other.meet(one, DOMAINS)
    assert one.implies(other, DOMAINS) is (mine <= theirs)
    assert (Nothing() in dict(one.meet(other, DOMAINS).patterns).values()) is (not mine & theirs)
    assert matched(one.normal(DOMAINS)) == mine
    assert (one.normal(DOMAINS) == other.normal(DOMAINS)) is (mine == theirs)


def test_needs_no_arrow() -> None:
    """Services take and give punctuations in images without Arrow."""
    modules = "ranges", "wire_json", "wire_xml"
    imports = "; ".join(f"import endmark.punctuation.{module}" for module in modules)

    code = f"import sys; {imports}; sys.exit('pyarrow' in sys.modules or 'numpy' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_attributes_not_named_match_anything() -> None:
    first = Punctuation.of("bids", {"price": Anything(), "item": Equals(42)}, Origin(0, 7))
    second = Punctuation.of("bids", {"item": Equals(42)}, Origin(0, 7))

    assert first == second
    assert hash(first) == hash(second)
    assert first.names() == ("item",)
    assert first.matches({"item": 42, "price": None})
    assert not first.matches({"item": None, "price": 1.0})


def test_order_of_attributes_does_not_count() -> None:
    one: dict[str, Pattern] = {"item": Between(1, 2), "price": Equals(1.5)}
    other = dict(reversed(one.items()))

    assert Punctuation.of("bids", one) == Punctuation.of("bids", other)


def test_derived_punctuation_has_no_origin() -> None:
    origin = Origin(3, 14)
    punctuation = Punctuation.of("bids", {"item": OneOf(frozenset({1}))}, origin)

    assert punctuation.normal(DOMAINS) == Punctuation.of("bids", {"item": Equals(1)}, origin)
    assert punctuation.meet(punctuation, DOMAINS).origin is None


def test_refused() -> None:
    bids = Punctuation.of("bids", {"item": Equals("a")})
    with pytest.raises(PunctuationError, match="'a' is no long"):
        bids.normal(DOMAINS)
    with pytest.raises(PunctuationError, match="no attribute 'colour'; it has item, price"):
        Punctuation.of("bids", {"colour": Nothing()}).normal(DOMAINS)
    with pytest.raises(PunctuationError, match="streams without common rows"):
        bids.meet(Punctuation.of("items", {}), DOMAINS)
