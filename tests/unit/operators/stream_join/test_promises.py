"""What a stream has promised by patterns on any columns: its size, and what is news."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from endmark.operators.promise_codec import PromiseCodec
from endmark.operators.stream_batch import StreamBatch
from endmark.operators.stream_join.join import StreamJoin
from endmark.operators.stream_join.promises import Promises
from endmark.operators.stream_join.side import SideSpec
from endmark.punctuation.pattern import Anything, Between, Equals, Nothing, OneOf, Pattern
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.state.keys import KeySpec
from endmark.state.store import MemoryBlobs, SegmentStore

COLUMNS = pa.schema([("key", pa.int64()), ("seller", pa.int64()), ("note", pa.string())])


def promise(partition: int, offset: int = 0, **patterns: Pattern) -> Punctuation:
    return Punctuation.of("s", patterns, Origin(partition, offset))


def promised(partitions: int = 1) -> Promises:
    key = KeySpec(("key",))
    return Promises(PromiseCodec("s", COLUMNS, key), key, partitions)


def complete(one: Promises) -> list[dict[str, Pattern]]:
    return [dict(each.patterns) for each in one.complete()]


def test_ever_more_takes_one_interval() -> None:
    """Of one column, and of several where a later promise includes the earlier ones; what was announced is
    not remembered."""
    one = promised()
    for number in range(50):
        one.add([promise(0, number, seller=Between(high=number))])
        one.add([promise(0, number, note=Equals("a"), seller=Between(low=-number))])
        for each in one.complete():
            one.announce(each)

    ranges = {"seller": {"between": {"to": 49}}}
    box = {"note": {"equals": "a"}, "seller": {"between": {"from": -49}}}
    assert json.loads(json.dumps(one.snapshot())) == {"by_partition": {"0": [ranges, box]}, "unannounced": []}


def test_a_promise_of_many_values_is_restored() -> None:
    """Each value was held against all others: 5,000 of them, which one record of 30 kB names, took 30 s of
    every batch in each bucket, and these would take a quarter of an hour."""
    values = frozenset(range(0, 40_000, 2))
    one = promised()
    one.add([promise(0, seller=OneOf(values))])

    again = promised()
    again.restore(one.snapshot())

    assert complete(again) == [{"seller": OneOf(values)}]


def test_patterns_on_several_columns_are_restored_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not compared with each other again. 400 of them took 5 s of each batch."""
    one, again = promised(), promised()
    one.add([promise(0, number, seller=Equals(number), note=Equals("a")) for number in range(9)])
    one.add([promise(0, 9, seller=Between(3, 5), note=Equals("b")), promise(0, 10, seller=Between(1, 7))])
    before = one.snapshot()
    with monkeypatch.context() as patch:
        patch.delattr(Punctuation, "implies")
        again.restore(before)

    assert again.snapshot() == before
    assert complete(again) == complete(one)
    rows = pa.record_batch({"key": [1, 1, 1], "seller": [8, 9, 0], "note": ["a", "a", "a"]})
    assert again.broken(rows, np.zeros(3, np.int64)).tolist() == [True, False, True]


def test_a_pattern_is_complete_once_every_partition_has_promised_it() -> None:
    """By one promise or by several on one column; what no value is in, and what is said again, is no news."""
    one = promised(2)
    before = [promise(0, seller=Between(high=5)), promise(0, 1, seller=Between(2, 3))]
    one.add([*before, promise(0, 2, note=Nothing())])
    one.add([promise(1, seller=Between(high=2)), promise(1, 1, seller=Between(3, 4))])
    assert complete(one) == [{"seller": Between(high=2)}, {"seller": Between(3, 4)}]

    one.add([promise(1, 2, seller=OneOf(frozenset({5, 7})))])
    assert {"seller": Between(high=5)} in complete(one)
    assert len(one.snapshot()["unannounced"]) == 4


def test_only_wider_promises_break_rows_here() -> None:
    """Those on the key alone are told from the key; each speaks for the rows of its own partition."""
    one = promised(2)
    one.add([promise(0, key=Between()), promise(0, 1, seller=Equals(1), note=Equals("b"))])
    one.add([promise(1, seller=Equals(2))])
    rows = pa.record_batch({"key": [1, 1, 1], "seller": [1, 1, 2], "note": ["a", "b", "b"]})
    partitions = np.array([0, 0, 0])

    assert one.broken(rows, partitions).tolist() == [False, True, False]
    assert one.broken(rows, partitions + 1).tolist() == [False, False, True]


def test_the_end_of_a_stream_is_a_pattern_of_all_its_values(tmp_path: Path) -> None:
    """It is announced as such, since to match anything would be to match the nulls of an outer join."""
    schemas = [pa.schema([(f"{name}_key", pa.int64())]) for name in "st"]
    left = SideSpec("s", KeySpec(("s_key",)), "s_key", schemas[0], "p", "o", None, punctuated_on=("s_key",))
    right = SideSpec("t", KeySpec(("t_key",)), "t_key", schemas[1], "p", "o", None)
    join = StreamJoin(left, right, SegmentStore(MemoryBlobs(), tmp_path))
    join.left.promises.add([promise(0, s_key=Anything())])

    assert list(join.process(StreamBatch(), StreamBatch())) == []
    released = join.output.patterns.released
    assert released == {f'{{"{name}_key": {{"between": {{}}}}}}': "closed" for name in "st"}
