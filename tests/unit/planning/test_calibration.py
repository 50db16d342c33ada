"""Unit costs of a relation whose reads take as long as they are told to."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest

from endmark.operators.lookup.join import LookupJoin, LookupOutput
from endmark.planning import calibration
from endmark.planning.calibration import calibrate
from endmark.relation.contract import KeyRange
from support.memory_relation import MemoryRelation

SEEK, ROW, TRIP, KEY = 1e-3, 1e-4, 2e-3, 3e-4
PAGE_ROWS = 5


class SlowRelation(MemoryRelation):
    """Takes time for each range, each row in it, each list of keys and each key in it."""

    taken = 0.0

    def pages(self, ranges: list[KeyRange]) -> pa.RecordBatch:
        found = super().pages(ranges)
        self.taken += SEEK * len(ranges) + ROW * found.num_rows
        return found

    def read_keys(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        self.taken += TRIP + KEY * keys.num_rows
        return super().read_keys(keys)


def relation(rows: int, of_a_key: int = 1) -> MemoryRelation:
    """Return a relation with a key of two columns, one of them texts."""
    days = [at // of_a_key % 7 for at in range(rows)]
    shops = [f"shop {at // of_a_key // 7}" for at in range(rows)]
    batch = pa.RecordBatch.from_pydict({"day": days, "shop": shops, "price": [0.5] * rows})
    return MemoryRelation(batch, ("shop", "day"))


def test_reads_cost_what_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on while this process works or the relation takes its time.

    On a busy machine, a sleep of a millisecond took many.
    """
    numbers = pa.RecordBatch.from_pydict({"k": range(1_000), "v": ["x" * 20] * 1_000})
    slow = SlowRelation(numbers, ("k",))
    monkeypatch.setattr(time, "perf_counter", lambda: time.process_time() + slow.taken)
    costs = calibrate(slow, slow.directory(PAGE_ROWS), payload=20)
    assert SEEK / 2 < costs.seek < 3 * SEEK
    assert PAGE_ROWS * ROW / 2 < costs.page < 3 * PAGE_ROWS * ROW
    assert KEY / 2 < costs.key < 3 * KEY
    assert TRIP / 2 < costs.trip < 3 * TRIP
    assert 0 <= costs.row < 1e-4
    assert 0 < costs.store + costs.wait < 1e-4


@pytest.mark.parametrize(("rows", "of_a_key"), [(1, 1), (3, 3), (2_000, 1), (2_000, 1_000)])
def test_relations_of_any_size(rows: int, of_a_key: int) -> None:
    """One row, one key, and keys of more rows than a page has.

    On a busy machine a row may seem to cost nothing.
    """
    some = relation(rows, of_a_key)
    costs = calibrate(some, some.directory(PAGE_ROWS), payload=0)
    assert all(0 <= cost < 1 for cost in vars(costs).values())


def test_keys_of_many_rows_make_no_more_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read answers rows of six batches of 50,000 results at most."""
    given = []

    class Counting(LookupJoin):
        def process(self, *args: Any, **named: Any) -> LookupOutput:
            output = super().process(*args, **named)
            given.append(sum(batch.num_rows for batch in output.joined))
            return output

    monkeypatch.setattr(calibration, "LookupJoin", Counting)
    some = relation(2_000, of_a_key=100)
    calibrate(some, some.directory(PAGE_ROWS), payload=0)
    assert 10_000 < max(given) < 500_000


def test_a_relation_without_rows() -> None:
    empty = relation(0)
    with pytest.raises(ValueError, match="the relation is empty"):
        calibrate(empty, empty.directory(PAGE_ROWS), payload=0)
