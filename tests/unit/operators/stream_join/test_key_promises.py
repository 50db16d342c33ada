"""What a side closes by patterns: which keys, at what cost, and over a restart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from endmark.operators.stream_join.key_promises import KeyPromises
from endmark.punctuation.pattern import Anything, Between, Equals, Pattern
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.state.keys import Keys, KeySpec
from endmark.state.segment import Segment

LONG = KeySpec(("key",))
PAIR = KeySpec.of(["key_0", "key_1"], [pa.string(), pa.int64()])


def promise(partition: int, offset: int = 0, **patterns: Pattern) -> Punctuation:
    return Punctuation.of("s", patterns, Origin(partition, offset))


def longs(partitions: int = 1) -> KeyPromises:
    return KeyPromises("s", LONG, [pa.int64()], partitions)


def pairs(*rows: tuple[str, int]) -> Keys:
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    return PAIR.keys(PAIR.coded(pa.record_batch(columns, names=list(PAIR.columns))))


def within(promises: KeyPromises, values: Sequence[int]) -> list[int]:
    codes = np.array(values, np.int64)
    return list(codes[promises.contain(Keys(codes))].tolist())


def written(promises: KeyPromises) -> Any:
    return json.loads(json.dumps(promises.snapshot()))


def test_ever_more_of_a_column_takes_one_interval() -> None:
    """However often a side says how far it has come, of one column or of several."""
    one, several = longs(), KeyPromises("s", PAIR, [pa.string(), pa.int64()], 1)
    for number in range(50):
        one.add([promise(0, number, key=Between(high=number))])
        several.add([promise(0, number, key_0=Equals("a"), key_1=Between(high=number))])

    assert written(one) == {"0": [[49, {"key": {"between": {"to": 49}}}]]}
    assert written(several) == {"0": [[49, {"key_0": {"equals": "a"}, "key_1": {"between": {"to": 49}}}]]}
    assert within(one, [-(2**63), 49, 50]) == [-(2**63), 49]
    assert several.contain(pairs(("a", 49), ("a", 50), ("b", 0))).tolist() == [True, False, False]


def test_neighbours_of_one_column_of_several_take_one_interval() -> None:
    """Each order closes all of its lines. Each such pattern was kept by itself, and asked about each row."""
    promises = KeyPromises("s", PAIR, [pa.string(), pa.int64()], 1)
    promises.add([promise(0, 1, key_0=Equals("a"), key_1=Between(2, 3)), promise(0, 2, key_1=Equals(1))])
    before = written(promises)["0"]
    promises.add([promise(0, number, key_1=Equals(number)) for number in range(3, 50)])
    promises.add([promise(0, 50, key_1=Equals(2)), promise(0, 62, key_1=Equals(60))])
    promises.add([promise(0, 70, key_0=Equals("b"), key_1=Between(5, 7))])

    assert len(before) == 2
    assert written(promises) == {
        "0": [[50, {"key_1": {"between": {"from": 1, "to": 49}}}], [62, {"key_1": {"equals": 60}}]]
    }
    assert promises.contain(pairs(("a", 0), ("a", 1), ("b", 49), ("b", 50))).tolist() == [
        False,
        True,
        True,
        False,
    ]


def test_keys_are_closed_once_every_partition_has_closed_them() -> None:
    """What partitions have closed differently is closed where they agree."""
    promises = longs(partitions=2)
    promises.add([promise(0, key=Between(high=5))])
    before = within(promises, range(10))
    promises.add([promise(1, key=Between(low=3, high=8, low_open=True))])

    assert (before, within(promises, range(10))) == ([], [4, 5])
    rows = pa.record_batch({"key": pa.array([3, 4, 4, 5, 6], pa.int64())})
    assert promises.positions(Segment.arrived(rows, LONG, None)).tolist() == [1, 2, 3]


def test_positions_that_the_last_promises_have_added() -> None:
    """All live rows below `key <= n` were held back anew by each such promise."""
    promises = longs(partitions=2)
    promises.add([promise(0, key=Between(high=9)), promise(1, key=Between(high=3))])
    segment = Segment.arrived(pa.record_batch({"key": pa.array(range(12), pa.int64())}), LONG, None)
    first = promises.added_positions(segment)
    promises.add([promise(1, 1, key=Between(high=5)), promise(1, 2, key=Equals(8))])

    assert first.tolist() == [0, 1, 2, 3]
    assert promises.added_positions(segment).tolist() == [4, 5, 8]
    assert promises.positions(segment).tolist() == [0, 1, 2, 3, 4, 5, 8]


def test_rows_break_the_promises_of_their_own_partition() -> None:
    """Within a batch only those before them."""
    promises = longs(partitions=2)
    promises.add([promise(0, key=Between(low=2))])
    keys, partitions = Keys(np.array([1, 2, 2])), np.array([0, 0, 1])
    behind = promises.broken_within([promise(0, 7, key=Equals(1))], keys, partitions, np.array([8, 8, 8]))
    before = promises.broken_within([promise(0, 7, key=Equals(1))], keys, partitions, np.array([6, 8, 8]))

    assert promises.promised_by(keys, partitions).tolist() == [False, True, False]
    assert behind.tolist() == [True, False, False]
    assert before.tolist() == [False, False, False]


@pytest.mark.parametrize("pattern", [Anything(), Between(), Between(high=2**63 - 1)])
def test_everything_can_be_closed(pattern: Pattern) -> None:
    """Up to the ends of 64 bits, and after a restart."""
    promises, restored = longs(), longs()
    promises.add([promise(0, key=pattern)])
    restored.restore(written(promises))
    values = [-(2**63), 0, 2**63 - 1]

    assert within(promises, values) == within(restored, values) == values


def test_the_promise_a_row_breaks_is_that_of_its_place() -> None:
    """Of one column the interval so far, as of who widened it; a promise behind the row, one of another
    partition and one that adds nothing are not named. It is the same over a restart."""
    before, restored = longs(partitions=2), longs(partitions=2)
    before.add(
        [promise(0, 1, key=Between(1, 3)), promise(0, 2, key=Between(2, 3)), promise(1, 3, key=Between())]
    )
    restored.restore(written(before))
    given = [promise(0, 9, key=Between(6, 9)), promise(0, 7, key=Between(4, 5))]
    keys, partitions = Keys(np.array([2, 2, 2, 2, 7])), np.zeros(5, np.int64)

    for promises in (before, restored):
        broken = promises.broken_promises(given, keys, partitions, np.array([5, 8, 7, 10, 9]))
        assert [found and (found.patterns[0][1], found.origin) for found in broken] == [
            (Between(1, 3), Origin(0, 1)),
            (Between(1, 5), Origin(0, 7)),
            (Between(1, 3), Origin(0, 1)),
            (Between(1, 9), Origin(0, 9)),
            None,
        ]


def test_the_newest_promise_on_several_columns_is_the_one_that_is_broken() -> None:
    """Written in normal form."""
    promises = KeyPromises("s", PAIR, [pa.string(), pa.int64()], 1)
    promises.add([promise(0, 1, key_0=Equals("a")), promise(0, 2, key_1=Between(1, 1, high_open=False))])
    keys = pairs(("a", 1), ("a", 2))

    broken = promises.broken_promises([], keys, np.zeros(2, np.int64), np.array([9, 9]))

    assert broken == [promise(0, 2, key_1=Equals(1)), promise(0, 1, key_0=Equals("a"))]


def test_promises_on_several_columns_are_restored_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not compared with each other again. 1,500 that name a part of the key took 28 s a batch."""
    one, again = (KeyPromises("s", PAIR, [pa.string(), pa.int64()], 1) for _ in range(2))
    one.add([promise(0, number, key_1=Equals(number)) for number in range(9)])
    one.add([promise(0, 9, key_0=Equals("b"), key_1=Between(high=3)), promise(0, 10, key_1=Equals(0))])
    with monkeypatch.context() as patch:
        patch.delattr(Punctuation, "implies")
        again.restore(written(one))

    assert written(again) == written(one)
    keys = pairs(("a", 8), ("a", 9), ("b", -1))
    assert again.contain(keys).tolist() == [True, False, True]
    broken = again.broken_promises([], pairs(("b", 0), ("a", 0)), np.zeros(2, np.int64), np.array([98, 99]))
    assert broken == [
        promise(0, 9, key_0=Equals("b"), key_1=Between(high=3)),
        promise(0, 8, key_1=Between(0, 8)),
    ]
