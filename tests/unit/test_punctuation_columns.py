"""What columns say of a batch is what patterns, ranges and ledgers say of its rows."""

from __future__ import annotations

from decimal import Decimal
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endmark.punctuation import columns
from endmark.punctuation.domain import Domain, PunctuationError
from endmark.punctuation.ledger import Ledger
from endmark.punctuation.pattern import Anything, Between, Equals, OneOf, Pattern
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.punctuation.ranges import Ranges
from endmark.types import ColumnType, Kind
from support.patterns import POOLS, ROWS, patterns, rows

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


@every_domain
@settings(deadline=None)
@given(data=st.data())
def test_add_all(domain: Domain, data: st.DataObject) -> None:
    """Adding a column is adding its values one by one; null and NaN are no values to add."""
    values = [value for value in data.draw(rows(domain)) if value not in (float("inf"), float("-inf"))]
    whole, single = Ranges(domain), Ranges(domain)
    for pattern in data.draw(st.lists(patterns(domain), max_size=3)):
        whole.add(pattern)
        single.add(pattern)

    fresh = columns.add_all(whole, pa.array(values, TYPES[domain]))

    missing = [value for value in values if not single.contains(value) and Between().matches(value)]
    for value in missing:
        single.add(Equals(value))
    assert list(whole.patterns()) == list(single.patterns())
    assert all(any(pattern.matches(value) for pattern in fresh) for value in missing)


def test_add_all_merges_first() -> None:
    """A run of values is one span before it reaches the range: a million of them are added at once."""
    ranges = Ranges(Domain.LONG)

    assert columns.add_all(ranges, pa.array([3, 1, None, 2, 2, 9])) == [Between(1, 3), Equals(9)]


@pytest.mark.parametrize("kind", Kind)
def test_types_of_pipelines(kind: Kind) -> None:
    """A pipeline's column types are domains by name."""
    column = ColumnType.decimal(18, 2) if kind is Kind.DECIMAL else ColumnType(kind)

    assert columns.domain_of_type(column.arrow) is Domain[kind.name]


def test_batch_of_two_attributes() -> None:
    batch = pa.record_batch({"item": [1, 1, 2, None], "price": [0.5, None, 0.5, 0.5]})
    punctuation = Punctuation.of("bids", {"item": Equals(1), "price": Between(None, 1)})

    assert columns.matches_batch(punctuation, batch).tolist() == [True, False, False, False]
    assert columns.matches_batch(Punctuation.of("bids", {}), batch).tolist() == [True] * 4
    assert columns.matches_batch(punctuation, batch.slice(0, 0)).tolist() == []


@pytest.mark.parametrize("scale", [0, 2, 38])
def test_decimals_of_any_scale(scale: int) -> None:
    """A bound finer than its column, or far beyond it, is compared by value."""
    column = pa.array([Decimal(0), None], pa.decimal128(38, scale))

    for bound in (Decimal("0.005"), Decimal("1e-38"), Decimal("9e37")):
        assert columns.matches(Between(None, bound), column).tolist() == [True, False]
        assert columns.matches(Between(bound, None), column).tolist() == [False, False]
        assert columns.matches(OneOf(frozenset({bound, Decimal(0)})), column).tolist() == [True, False]


@pytest.mark.parametrize("arrow", [pa.int32(), pa.timestamp("ms", "UTC"), pa.timestamp("us"), pa.binary()])
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


@settings(deadline=None)
@given(data=st.data())
def test_violations(data: st.DataObject) -> None:
    """The ledger's answer for every row: whether, and which promise first."""
    domains = {"item": Domain.LONG, "price": Domain.DOUBLE}
    pattern_of = {name: patterns(domain) for name, domain in domains.items()}
    promises: dict[int, dict[str, Pattern]] = data.draw(
        st.dictionaries(st.integers(0, 9), st.fixed_dictionaries({}, optional=pattern_of), max_size=5)
    )
    ledger = Ledger("bids", domains)
    for offset in sorted(promises):
        ledger.promise(Punctuation.of("bids", promises[offset], Origin(0, offset)))
    world = [
        {"item": item, "price": price} for item, price in product(ROWS[Domain.LONG], ROWS[Domain.DOUBLE])
    ]
    offsets = [7 * at % 11 for at in range(len(world))]
    schema = pa.schema({name: TYPES[domain] for name, domain in domains.items()})
    batch = pa.RecordBatch.from_pylist(world, schema)

    mask, broken = columns.violations(ledger, batch, 0, np.array(offsets, np.int64))

    expected = [ledger.violation(row, 0, offset) for row, offset in zip(world, offsets, strict=True)]
    known = ledger.partition(0).promises
    assert mask.tolist() == [promise is not None for promise in expected]
    assert [known[at] if at != columns.NO_PROMISE else None for at in broken.tolist()] == expected
