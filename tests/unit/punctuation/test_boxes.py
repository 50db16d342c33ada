"""Boxes of several attributes, against a list in which each is compared with each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endmark.domain import Domain
from endmark.punctuation.boxes import Boxes
from endmark.punctuation.pattern import Between, Equals, Nothing, Pattern
from endmark.punctuation.punctuation import Punctuation
from support.patterns import patterns

DOMAINS = {"item": Domain.LONG, "price": Domain.DOUBLE, "seller": Domain.LONG}

# Constants of few values, so that boxes have some in common.
_one = st.builds(Equals, st.integers(0, 2))
_normal = st.builds(
    Punctuation.of,
    st.just("bids"),
    st.fixed_dictionaries({}, optional={name: _one | patterns(domain) for name, domain in DOMAINS.items()}),
).map(lambda found: found.normal(DOMAINS))


def is_empty(box: Punctuation) -> bool:
    return any(isinstance(pattern, Nothing) for _, pattern in box.patterns)


def box(**given: Pattern) -> Punctuation:
    return Punctuation.of("bids", given).normal(DOMAINS)


@settings(deadline=None)
@given(added=st.lists(_normal, max_size=12), asked=_normal)
def test_equal_those_of_a_list(added: list[Punctuation], asked: Punctuation) -> None:
    found, literal, restored = Boxes(DOMAINS), list[Punctuation](), Boxes(DOMAINS)
    for one in added:
        found.add(one)
        if not is_empty(one):
            literal = [*(old for old in literal if not old.implies(one, DOMAINS)), one]
    for one in found:
        restored.restore(one)

    assert list(found) == list(restored) == literal
    assert list(reversed(found)) == literal[::-1]
    if not is_empty(asked):
        included = any(asked.implies(each, DOMAINS) for each in literal)
        assert found.includes(asked) is restored.includes(asked) is included


def test_boxes_of_different_constants_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """400 boxes of a day and a shop were compared with each other in each batch, which took 5 s."""
    compared = Counter[str]()
    implies = Punctuation.implies

    def counted(one: Punctuation, other: Punctuation, domains: Mapping[str, Domain]) -> bool:
        compared["boxes"] += 1
        return implies(one, other, domains)

    monkeypatch.setattr(Punctuation, "implies", counted)
    boxes = Boxes(DOMAINS)
    for number in range(300):
        boxes.add(box(item=Equals(number % 20), seller=Equals(number)))
        boxes.add(box(item=Between(high=number), seller=Equals(number)))
    assert boxes.includes(box(item=Equals(7), price=Equals(1.5), seller=Equals(7)))
    assert not boxes.includes(box(item=Equals(8), seller=Equals(7), price=Equals(1.5)))

    assert compared.total() <= 4 * 300
