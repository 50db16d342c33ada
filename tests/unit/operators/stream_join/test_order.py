"""Declared order: what the rows of a partition say of those to come, however they are cut into batches."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from endmark.operators.stream_join.order import Mark, Order, marks, marks_table
from endmark.punctuation.pattern import Between, Pattern
from endmark.punctuation.punctuation import Origin, Punctuation

if TYPE_CHECKING:
    from endmark.state.search import Ints


def offsets(count: int, start: int = 0) -> Ints:
    return np.arange(start, start + count)


def promise(pattern: Pattern, partition: int, offset: int) -> Punctuation:
    return Punctuation.of("s", {"key": pattern}, Origin(partition, offset))


def test_marks_are_those_that_rows_fall_behind() -> None:
    """And the last, each with the offset of the first row that had its key; a mark goes on from batch to
    batch of a partition."""
    keys = pa.array([3, 5, 5, 4, 5, 9, 7, 8, 12])

    assert marks(keys, offsets(9), None, descending=False) == ([Mark(5, 1), Mark(9, 5)], Mark(12, 8))
    before, last = marks(keys.slice(0, 3), offsets(3), None, descending=False)
    assert (before, last) == ([], Mark(5, 1))
    again = marks(keys.slice(3), offsets(6, 3), last, descending=False)
    assert again == ([Mark(5, 1), Mark(9, 5)], Mark(12, 8))
    assert marks(pa.array(["b", "c", "a"]), offsets(3), None, descending=True) == (
        [Mark("b", 0)],
        Mark("a", 2),
    )


@pytest.mark.parametrize("restart", [False, True])
def test_a_row_falls_behind_what_came_before_it(restart: bool) -> None:
    """In its own batch or an earlier one, in its own partition; it is told what it fell behind."""
    order = Order("s", "key", pa.int64(), descending=False)
    low = order.take(marks_table([(0, Mark(5, 7)), (1, Mark(2, 3))], pa.int64()))
    assert low == [promise(Between(high=4), 0, 7), promise(Between(high=1), 1, 3)]
    if restart:
        snapshot = json.loads(json.dumps(order.snapshot()))
        order = Order("s", "key", pa.int64(), descending=False)
        assert order.restore(snapshot) == low
    given = marks_table([(0, Mark(9, 12)), (0, Mark(3, 10)), (2, Mark(4, 0))], pa.int64())
    keys = pa.array([4, 5, 8, 8, 1, 2, 3])
    partitions, places = np.array([0, 0, 0, 0, 1, 2, 2]), np.array([11, 11, 11, 13, 13, 13, 13])

    bad = order.broken(keys, partitions, places, given)
    assert bad.tolist() == [True, False, False, True, True, True, True]
    assert order.promises(keys.filter(pa.array(bad)), partitions[bad], places[bad], given) == [
        promise(Between(high=4), 0, 7),
        promise(Between(high=8), 0, 12),
        promise(Between(high=1), 1, 3),
        promise(Between(high=3), 2, 0),
        promise(Between(high=3), 2, 0),
    ]
    assert order.take(given) == [promise(Between(high=8), 0, 12), promise(Between(high=3), 2, 0)]
    assert order.take(given) == []


def test_texts_and_descending_keys() -> None:
    """Texts by their bytes; keys that go down rule out those above."""
    order = Order("s", "key", pa.string(), descending=True)
    order.take(marks_table([(0, Mark("m", 1))], pa.string()))
    rows = np.zeros(3, np.int64), np.array([2, 2, 0])

    assert order.broken(pa.array(["n", "m", "z"]), *rows, None).tolist() == [True, False, False]
    (told,) = order.promises(pa.array(["n"]), rows[0][:1], rows[1][:1], None)
    assert told == promise(Between(low="m", low_open=True), 0, 1)
