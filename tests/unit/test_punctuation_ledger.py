"""Which promise a row breaks: against trying all of them."""

from __future__ import annotations

import json
from copy import deepcopy
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endmark.punctuation.domain import Domain, PunctuationError
from endmark.punctuation.ledger import Ledger, Row
from endmark.punctuation.pattern import Between, Equals, Pattern
from endmark.punctuation.punctuation import Origin, Punctuation
from support.patterns import ROWS, patterns

DOMAINS = {"item": Domain.LONG, "price": Domain.DOUBLE}
WORLD = [{"item": item, "price": price} for item, price in product(ROWS[Domain.LONG], ROWS[Domain.DOUBLE])]
places = st.builds(Origin, st.integers(0, 1), st.integers(0, 9))
promises = st.dictionaries(
    places,
    st.fixed_dictionaries({}, optional={name: patterns(domain) for name, domain in DOMAINS.items()}),
    max_size=8,
).map(lambda found: [Punctuation.of("bids", found[place], place) for place in sorted(found)])


def broken(made: list[Punctuation], row: Row, partition: int, offset: int) -> Punctuation | None:
    """By definition: the first earlier promise of the row's own partition that matches it."""
    for promise in made:
        assert promise.origin is not None
        if promise.origin.partition == partition and promise.origin.offset < offset and promise.matches(row):
            return promise
    return None


@settings(deadline=None)
@given(made=promises, place=places)
def test_first_broken_promise(made: list[Punctuation], place: Origin) -> None:
    """The same after a copy and a restart in between."""
    ledger = Ledger("bids", DOMAINS)
    half = len(made) // 2
    for promise in made[:half]:
        ledger.promise(promise)
    ledger = Ledger.restore("bids", DOMAINS, json.loads(json.dumps(ledger.snapshot())))
    before = deepcopy(ledger)
    for promise in made[half:]:
        ledger.promise(promise)

    for row in WORLD:
        assert ledger.violation(row, *place) == broken(made, row, *place)
        assert before.violation(row, *place) == broken(made[:half], row, *place)


def test_a_promise_speaks_for_later_rows_of_its_partition() -> None:
    ledger = Ledger("bids", DOMAINS)
    promise = Punctuation.of("bids", {"item": Between(1, 9)}, Origin(2, 5))
    ledger.promise(promise)
    row = {"item": 4, "price": None}

    assert ledger.violation(row, 2, 6) is promise
    assert ledger.violation(row, 2, 4) is None
    assert ledger.violation(row, 1, 6) is None
    assert ledger.violation({"item": 10, "price": None}, 2, 6) is None


def test_the_first_promise_is_named_whatever_the_order_of_values() -> None:
    """A later promise takes what is left between the values of earlier ones."""
    ledger = Ledger("bids", DOMAINS)
    closing: list[Pattern] = [Equals(9), Equals(5), Equals(1), Between(0, 6), Between(None, 9)]
    for offset, pattern in enumerate(closing):
        ledger.promise(Punctuation.of("bids", {"item": pattern}, Origin(0, offset)))

    broken = [
        ledger.violation({"item": item, "price": None}, 0, 99) for item in (9, 5, 1, 0, 3, 6, -1, 8, 10)
    ]

    assert [promise and promise.origin and promise.origin.offset for promise in broken] == [
        *(0, 1, 2, 3, 3, 3, 4, 4),
        None,
    ]


def test_promises_come_in_order() -> None:
    """Out of order, the first promise a row breaks would depend on when it is asked for."""
    ledger = Ledger("bids", DOMAINS)
    ledger.promise(Punctuation.of("bids", {"item": Equals(1)}, Origin(0, 5)))

    with pytest.raises(PunctuationError, match="partition 0: offset 5 comes after offset 5"):
        ledger.promise(Punctuation.of("bids", {"item": Equals(2)}, Origin(0, 5)))


@pytest.mark.parametrize(
    "punctuation", [Punctuation.of("items", {}, Origin(0, 0)), Punctuation.of("bids", {"item": Equals(1)})]
)
def test_no_promise_of_this_stream(punctuation: Punctuation) -> None:
    with pytest.raises(PunctuationError, match="no promise of a partition of 'bids'"):
        Ledger("bids", DOMAINS).promise(punctuation)
