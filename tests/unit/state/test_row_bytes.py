"""Results are cut into ranges by the bytes of their rows."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endmark.state import codec, row_bytes

MOST = 400
LEFT = pa.record_batch(
    {
        "text": pa.array(["", "x" * 500, None, "ä" * 40, "y"]),
        "texts": pa.array([[], ["a" * 90, "b"], None, [None, "c" * 30], ["d"]], pa.list_(pa.string())),
        "time": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 5, pa.timestamp("us", "UTC")),
        "flag": pa.array([True] * 5),
    }
)
LEFT_BYTES = [9, 9 + 500 + 91, 9, 9 + 80 + 30, 9 + 1 + 1]
RIGHT = pa.record_batch(
    {
        "price": pa.array([Decimal(1)] * 3, pa.decimal128(20, 2)),
        "numbers": pa.array([[1] * 20, [], [2]], pa.list_(pa.int64())),
        "none": pa.array([[], [], []], pa.list_(pa.string())),
    }
)
RIGHT_BYTES = [16 + 160, 16, 16 + 8]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=12), st.booleans(), st.booleans())
def test_a_range_takes_up_to_its_bytes(results: list[tuple[int, int]], sliced: bool, sent: bool) -> None:
    """No result is lost, and a range ends only where the next result would exceed its bytes."""
    left = LEFT.slice(1) if sliced else LEFT
    sides = [codec.decode(codec.encode(rows)) if sent else rows for rows in (left, RIGHT)]
    i, j = (np.array([result[at] for result in results], np.int64) for at in (0, 1))
    sizes = [LEFT_BYTES[x + sliced] + RIGHT_BYTES[y] for x, y in results]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_bytes, "BYTES_AT_ONCE", MOST)
        parts = list(row_bytes.cut([(sides[0], i), (sides[1], j)]))

    assert [at for part in parts for at in range(len(results))[part]] == list(range(len(results)))
    assert all(sum(sizes[part]) <= MOST or len(sizes[part]) == 1 for part in parts)
    assert all(sum(sizes[one]) + sizes[other.start] > MOST for one, other in pairwise(parts))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.struct([("text", pa.string())]), {"text": "x" * 100}),
        (pa.map_(pa.string(), pa.int64()), [("x" * 100, 1)]),
        (pa.list_(pa.struct([("text", pa.string())])), [{"text": "x" * 100}]),
        (pa.large_string(), "x" * 100),
        (pa.list_(pa.string(), 2), ["x" * 50, "y" * 50]),
    ],
)
def test_other_types_count_with_their_mean(kind: pa.DataType, value: object) -> None:
    """A frame may carry columns of any type."""
    rows = pa.record_batch({"column": pa.array([value] * 20, kind), "null": pa.nulls(20)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_bytes, "BYTES_AT_ONCE", MOST)
        parts = list(row_bytes.cut([(rows, np.arange(20))]))

    assert [at for part in parts for at in range(20)[part]] == list(range(20))
    assert 6 <= len(parts) <= 10
