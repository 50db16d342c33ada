"""Lists of keys that fit into a statement. tests/unit/relation/test_sql.py asks databases for odd keys."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from endmark.relation.possible_keys import BYTES_AT_ONCE, possible, slices


@pytest.mark.parametrize(
    ("keys", "lengths"),
    [
        ({"k": range(10)}, [4, 4, 2]),
        ({"k": ["a"] * 10}, [4, 4, 2]),
        ({"k": ["a", "b" * (BYTES_AT_ONCE // 3), "c", "d"]}, [3, 1]),
        ({"k": ["a"] * 3, "l": ["ä" * (BYTES_AT_ONCE // 4)] * 3}, [1, 1, 1]),
        ({"k": ["a" * (2 * BYTES_AT_ONCE), "b"]}, [1, 1]),
        ({"k": pa.array([], pa.string())}, []),
    ],
)
def test_a_list_has_room_for_its_longest_key_at_each_place(keys: dict[str, Any], lengths: list[int]) -> None:
    """A list is filled up with its last key, which may be the longest one."""
    batch = pa.record_batch({name: pa.array(column) for name, column in keys.items()})

    found = list(slices(batch, 4))

    assert [each.num_rows for each in found] == lengths
    assert [row for each in found for row in each.to_pylist()] == batch.to_pylist()


def test_keys_that_python_cannot_hold_are_not_asked_for() -> None:
    """They made the read fail, and with it every start of a query whose frame had such a row."""
    days = pa.array([0, 3_673_000, 2_932_896, 2_932_897, -719_162, -719_163, None], pa.int32())
    times = pa.array([0, 253_402_300_799_999_999, 253_402_300_800_000_000], pa.int64())
    names = pa.array([b"ann", b"caf\xe9", "é".encode()], pa.binary())
    columns = [days.view(pa.date32()), times.view(pa.timestamp("us", "UTC")), names.view(pa.string())]
    kept = [[0, 2, 4, 6], [0, 1], [0, 2]]

    for column, places in zip(columns, kept, strict=True):
        keys = pa.record_batch({"k": column})
        assert possible(keys, "sqlite", {}, {}) == keys.take(pa.array(places))
