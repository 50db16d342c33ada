"""What columns say of a batch is what patterns and ranges say of its rows."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endmark.domain import Domain, PunctuationError
from endmark.punctuation import columns
from endmark.punctuation.pattern import Anything, Between, Equals, OneOf, Pattern
from endmark.punctuation.ranges import Ranges
from endmark.types import ColumnType
from support.patterns import POOLS, ROWS, patterns

TYPES = {
    Domain.BOOLEAN: pa.bool_(),
    Domain.LONG: pa.int64(),
    Domain.DOUBLE: pa.float64(),
    Domain.STRING: pa.string(),
    Domain.DECIMAL: pa.decimal128(38, 6),
    Domain.DATE: pa.date32(),
    Domain.TIMESTAMP: pa.timestamp("us", "UTC"),
}
every_domain = pytest.mark.parametrize("domain", list(Domain))


@every_domain
@settings(deadline=None)
@given(data=st.data())
def test_matches(domain: Domain, data: st.DataObject) -> None:
    pattern = data.draw(patterns(domain))

    found = columns.matches(pattern, pa.array(ROWS[domain], TYPES[domain]))

    assert found.tolist() == [pattern.matches(value) for value in ROWS[domain]]


@every_domain
@settings(deadline=None)
@given(data=st.data())
def test_contains_all(domain: Domain, data: st.DataObject) -> None:
    ranges = Ranges(domain)
    for pattern in data.draw(st.lists(patterns(domain), max_size=4)):
        ranges.add(pattern)

    found = columns.contains_all(ranges, pa.array(ROWS[domain], TYPES[domain]))

    assert found.tolist() == [ranges.contains(value) for value in ROWS[domain]]


@every_domain
@settings(deadline=None)
@given(data=st.data())
def test_patterns_that_match_some_value(domain: Domain, data: st.DataObject) -> None:
    """All patterns of a column at once, whatever pieces its values come in."""
    restricting = patterns(domain).filter(lambda pattern: pattern != Anything())
    chosen = data.draw(st.lists(restricting, max_size=5))
    pieces = data.draw(st.lists(st.lists(st.sampled_from(ROWS[domain]), max_size=4), max_size=3))

    found = columns.matched(chosen, [pa.array(piece, TYPES[domain]) for piece in pieces])

    values = [value for piece in pieces for value in piece]
    assert found.tolist() == [any(map(pattern.matches, values)) for pattern in chosen]


@every_domain
def test_parts_of_columns(domain: Domain) -> None:
    """Slices, all-null and empty columns; Arrow gives these other buffers."""
    whole, ranges = pa.array(ROWS[domain], TYPES[domain]), Ranges(domain)
    first, *_, last = sorted(set(POOLS[domain]))
    pattern = Between(first, last, high_open=True)
    ranges.add(pattern)
    for part in (whole.slice(3), whole.slice(0, 1), whole.slice(0, 0)):
        expected = [pattern.matches(value) for value in part.to_pylist()]
        assert columns.matches(pattern, part).tolist() == expected
        assert columns.contains_all(ranges, part).tolist() == expected


@pytest.mark.parametrize("kind", Domain)
def test_types_of_pipelines(kind: Domain) -> None:
    """A pipeline's column types are domains by name."""
    column = ColumnType.decimal(18, 2) if kind is Domain.DECIMAL else ColumnType(kind)

    assert columns.domain_of_type(column.arrow) is Domain[kind.name]


@pytest.mark.parametrize("scale", [0, 2, 38])
def test_decimals_of_any_scale(scale: int) -> None:
    """A bound finer than its column, or far beyond it, is compared by value."""
    column = pa.array([Decimal(0), None], pa.decimal128(38, scale))

    for bound in (Decimal("0.005"), Decimal("1e-38"), Decimal("9e37")):
        assert columns.matches(Between(None, bound), column).tolist() == [True, False]
        assert columns.matches(Between(bound, None), column).tolist() == [False, False]
        assert columns.matches(OneOf(frozenset({bound, Decimal(0)})), column).tolist() == [True, False]


@pytest.mark.parametrize("arrow", [pa.int8(), pa.int16(), pa.int32()])
def test_narrow_integers(arrow: pa.DataType) -> None:
    """Bounds may be beyond what the column holds."""
    column, ranges = pa.array([-1, 0, 7, None], arrow), Ranges(Domain.LONG)
    ranges.add(Between(0, 1 << 40))

    assert columns.matches(Between(high=1 << 40), column).tolist() == [True, True, True, False]
    assert columns.matches(Equals(1 << 40), column).tolist() == [False] * 4
    assert columns.contains_all(ranges, column).tolist() == [False, True, True, False]


@pytest.mark.parametrize("arrow", [pa.uint64(), pa.timestamp("ms", "UTC"), pa.timestamp("us"), pa.binary()])
def test_other_columns_are_refused(arrow: pa.DataType) -> None:
    """A column of another width or zone would be compared with bounds it cannot hold."""
    with pytest.raises(PunctuationError, match="no pattern speaks of a column of"):
        columns.matches(Anything(), pa.array([], arrow))


@pytest.mark.parametrize("pattern", [Equals("a"), Equals(1.5), Equals(True)])
def test_pattern_of_another_type_is_refused(pattern: Pattern) -> None:
    with pytest.raises(PunctuationError, match="is no long"):
        columns.matches(pattern, pa.array([1]))
    with pytest.raises(PunctuationError, match="the attribute is string, its column int64"):
        columns.contains_all(Ranges(Domain.STRING), pa.array([1]))
