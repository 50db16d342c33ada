"""A punctuated range is the union of what was added, in as few spans as there can be."""

from __future__ import annotations

from copy import deepcopy
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endmark.domain import Cut, Domain
from endmark.punctuation.algebra import pattern_of
from endmark.punctuation.pattern import Anything, Between, Equals, OneOf
from endmark.punctuation.ranges import Ranges
from support.patterns import ROWS, members, patterns

every_domain = pytest.mark.parametrize("domain", list(Domain))


@every_domain
@settings(deadline=None)
@given(data=st.data())
def test_is_the_union(domain: Domain, data: st.DataObject) -> None:
    """Membership is that of the set of patterns, and every add says exactly what it added."""
    ranges, union = Ranges(domain), set[int]()
    for pattern in data.draw(st.lists(patterns(domain), max_size=6)):
        fresh = ranges.add(pattern)
        before, union = union, union | set(members(pattern, domain))

        new = [member for each in fresh for member in members(each, domain)]
        assert len(new) == len(set(new))
        if not isinstance(pattern, Anything):
            assert set(new) == union - before
        assert {at for at, value in enumerate(ROWS[domain]) if ranges.contains(value)} == union
        other = data.draw(patterns(domain))
        if not isinstance(other, Anything):
            assert ranges.includes(other) == (set(members(other, domain)) <= union)


@every_domain
@settings(deadline=None)
@given(data=st.data())
def test_spans_do_not_touch(domain: Domain, data: st.DataObject) -> None:
    ranges = Ranges(domain)
    for pattern in data.draw(st.lists(patterns(domain), max_size=6)):
        ranges.add(pattern)

    spans = list(ranges.spans())
    assert all(low < high for low, high in spans)
    assert all(left[1] < right[0] for left, right in pairwise(spans))
    assert len(spans) == len(ranges)


@every_domain
@settings(deadline=None)
@given(data=st.data())
def test_a_span_is_as_of_the_pattern_that_made_it_what_it_is(domain: Domain, data: st.DataObject) -> None:
    ranges, born = Ranges(domain), dict[tuple[Cut, Cut], int]()
    for time, pattern in enumerate(data.draw(st.lists(patterns(domain), max_size=6))):
        ranges.add(pattern, time)
        for span in ranges.spans():
            born.setdefault(span, time)

    for low, high in ranges.spans():
        assert ranges.find(low) == (pattern_of((low, high), domain), born[low, high])
    if not ranges.everything:
        assert list(ranges.dated()) == [ranges.find(low) for low, _ in ranges.spans()]
    assert ranges.find(domain.top) is None


def test_neighbours_merge() -> None:
    """Closing 1, 2, 3, ... one by one takes one interval."""
    ranges = Ranges(Domain.LONG)

    assert [ranges.add(Equals(value)) for value in range(1000)] == [[Equals(value)] for value in range(1000)]
    assert list(ranges.patterns()) == [Between(0, 999)]
    assert len(ranges) == 1


def test_adds_say_what_was_new() -> None:
    ranges = Ranges(Domain.LONG)
    ranges.add(OneOf(frozenset({2, 5})))

    assert ranges.add(Between(0, 6)) == [Between(0, 1), Between(3, 4), Equals(6)]
    assert ranges.add(Between(0, 6)) == []
    assert ranges.add(Anything()) == [Anything()]
    assert ranges.add(Anything()) == []


def test_copies_are_independent() -> None:
    ranges = Ranges(Domain.STRING)
    checkpoint = deepcopy(ranges)
    ranges.add(Equals("a"))

    assert not checkpoint.contains("a")


def test_values_of_another_type_are_in_no_range() -> None:
    ranges = Ranges(Domain.LONG)
    ranges.add(Between())

    assert ranges.contains(1)
    assert not any(ranges.contains(value) for value in (True, 1.0, "1", None))
