"""Join keys: rows are told apart by value, whatever their codes."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from endmark.state import keys
from endmark.state.keys import CODE, KeySpec, hash_columns

# Few values of each type, those among them that a hash could mistake for each other; with their Arrow type.
VALUES: dict[pa.DataType, list[Any]] = {
    pa.int64(): [0, 1, -1, 2**63 - 1, -(2**63), 2**32],
    pa.int32(): [0, 1, -1, 2**31 - 1],
    pa.bool_(): [False, True],
    pa.date32(): [date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)],
    pa.timestamp("us", "UTC"): [
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, 1, 1, 1, 1, tzinfo=UTC),
    ],
    pa.string(): [
        "",
        "\0",
        "\0\0",
        "a",
        "a\0",
        "12345678",
        "12345678\0",
        "123456789",
        "876543219",
        "é",
        "日本",
    ],
    pa.decimal128(38, 2): [
        Decimal("0.00"),
        Decimal("-0.01"),
        Decimal("0.01"),
        Decimal(2**62),
        Decimal(10**35),
    ],
}
types = st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3)


@st.composite
def two_tables(draw: st.DrawFn) -> tuple[list[pa.DataType], list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    kinds = draw(types)
    others = [None] if draw(st.booleans()) else []
    row = st.tuples(*(st.sampled_from([*VALUES[kind], *others]) for kind in kinds))
    return kinds, draw(st.lists(row, max_size=12)), draw(st.lists(row, max_size=12))


def table(kinds: list[pa.DataType], rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]
    return pa.record_batch(columns, names=[f"c{at}" for at in range(len(kinds))])


def spec(kinds: list[pa.DataType], *, nullable: bool) -> KeySpec:
    return KeySpec.of([f"c{at}" for at in range(len(kinds))], kinds, nullable=nullable)


_hash = hash_columns


@pytest.mark.parametrize("sifted", [1, 1_000], ids=["sifted", "not sifted"])
@pytest.mark.parametrize("mask", [0, 1, -1], ids=["all collide", "half collide", "few collide"])
@settings(deadline=None)
@given(tables=two_tables())
@example(tables=([pa.string()], [], [("a",)]))
@example(tables=([pa.int32()], [(0,), (1,)], [(-1,), (0,), (2**31 - 1,)]))
def test_pairs_are_rows_of_equal_values(
    mask: int, sifted: int, tables: tuple[list[pa.DataType], list[tuple[Any, ...]], list[tuple[Any, ...]]]
) -> None:
    """Every pair of rows with equal values and no other, for keys of any types, even when codes collide.

    Two nulls are equal.
    """
    kinds, left, right = tables
    key = spec(kinds, nullable=any(None in row for row in [*left, *right]))
    with patch.object(keys, "hash_columns", lambda columns: _hash(columns) & mask):
        probe = key.keys(key.coded(table(kinds, left)))
        batch = key.sorted(key.coded(table(kinds, right)))
        distinct = key.distinct(batch) if right else None
    others = key.keys(batch)
    with patch.object(keys, "SIFTED", sifted):
        pairs = list(probe.pairs(others))
    found = sorted((int(a), int(b)) for i, j in pairs for a, b in zip(i, j, strict=True))
    stored = list(zip(*(column.to_pylist() for column in batch.select(key.columns).columns), strict=True))

    assert found == [(a, b) for a, one in enumerate(left) for b, two in enumerate(stored) if one == two]
    assert probe.among(others).tolist() == [row in right for row in left]
    assert (others.codes[1:] >= others.codes[:-1]).all()
    if distinct is not None:
        once = list(
            zip(*(column.to_pylist() for column in distinct.select(key.columns).columns), strict=True)
        )
        assert sorted(once, key=repr) == sorted(set(right), key=repr)
        assert (key.keys(distinct).codes.tolist()) == sorted(key.keys(distinct).codes.tolist())


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_values_have_codes_of_their_own(kind: pa.DataType) -> None:
    """Values that look alike do not collide, and a slice has the codes of the rows it shows."""
    column = pa.array(VALUES[kind], kind)
    codes = hash_columns([column])

    assert len(set(codes.tolist())) == len(column)
    assert hash_columns([column.slice(1)]).tolist() == codes[1:].tolist()


def test_columns_have_an_order() -> None:
    """A composite key is not the set of its values."""
    one, two = pa.array([1]), pa.array([2])

    assert hash_columns([one, two]).tolist() != hash_columns([two, one]).tolist()


def test_one_exact_column_is_its_own_code() -> None:
    """Rows of such a key are stored as they are; others carry their code."""
    rows = pa.record_batch({"a": pa.array([3, 1]), "b": pa.array(["x", "y"])})
    exact, hashed = KeySpec.of(["a"], [pa.int64()]), KeySpec.of(["a", "b"], [pa.int64(), pa.string()])

    assert exact.coded(rows) is rows
    assert exact.stored == ["a"]
    assert exact.shared == KeySpec(("key",))
    assert hashed.coded(rows).schema.names == ["a", "b", CODE]
    assert hashed.shared == KeySpec(("key_0", "key_1"), hashed=True)
