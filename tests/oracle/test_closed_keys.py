"""Closed keys take bounded space if they are dense, and answer as a set does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.engine.channels import Buckets
from endmark.operators.stream_join import closed_keys
from endmark.operators.stream_join.closed_keys import LATER, ClosedKeys
from endmark.operators.stream_join.key_promises import KeyPromises
from endmark.operators.stream_join.key_sets import UNKNOWN
from endmark.operators.stream_join.members import Member
from endmark.punctuation.pattern import Between
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.state import manifest
from endmark.state.keys import KeySpec, Share
from endmark.state.store import MemoryBlobs, SegmentStore
from support.cases import cases
from support.sizes import BUCKETS, MERGING, Merging

BOTTOM, TOP = -(1 << 63), (1 << 63) - 1


class Shares:
    """The closed keys of all buckets, restored from their snapshots when asked to.

    Args:
        buckets: the number of buckets.
        kind: the type of the key.
        directory: for copies of the state.
        options: further arguments of `ClosedKeys`.
    """

    def __init__(self, buckets: int, kind: pa.DataType, directory: Path, **options: Any) -> None:
        self.buckets = Buckets(tuple(range(buckets)))
        self.key = KeySpec.of(["key"], [kind])
        self.kind = kind
        self._directory = directory
        self._options = options
        self.patterns = KeyPromises("s", self.key, [kind], 1)
        self.blobs = [MemoryBlobs() for _ in range(buckets)]
        self.parts = [self._empty(blobs) for blobs in self.blobs]

    def _empty(self, blobs: MemoryBlobs) -> ClosedKeys:
        store = SegmentStore(blobs, self._directory)
        buckets = len(self.buckets)
        return ClosedKeys(store, self.key, self.patterns, [Member("s")], buckets=buckets, **self._options)

    def snapshots(self) -> list[bytes]:
        return [manifest.save(part.lists(), {}) for part in self.parts]

    def restore(self) -> None:
        snapshots = self.snapshots()
        self.parts = [self._empty(blobs) for blobs in self.blobs]
        for part, snapshot in zip(self.parts, snapshots, strict=True):
            manifest.load(snapshot, part.lists())

    def split(self, factor: int) -> None:
        """Split each bucket into some, each of which begins with a copy of its state."""
        snapshots, stored = self.snapshots(), [blobs.blobs for blobs in self.blobs]
        before, count = len(snapshots), factor * len(snapshots)
        self.buckets = Buckets(tuple(range(count)))
        self.blobs = [MemoryBlobs() for _ in range(count)]
        self.parts = []
        for number, blobs in enumerate(self.blobs):
            blobs.blobs = dict(stored[number % before])
            part = self._empty(blobs)
            manifest.load(snapshots[number % before], part.lists())
            part.keep(Share(number, count))
            self.parts.append(part)

    def close(self, keys: pa.Array, partitions: Any, offsets: Any, time: int = 0, **more: Any) -> None:
        columns = {"key": keys, "partition": pa.array(partitions), "offset": pa.array(offsets)}
        batch = pa.record_batch(columns | {name: pa.array(values) for name, values in more.items()})
        for number, share in self.buckets.by_key(batch, self.key):
            self.parts[number].take(share, widened=False, time=time)
            self.parts[number].close()
            self.parts[number].maintain()

    def closed(self, values: Sequence[Any]) -> set[Any]:
        """Return those of some values that are closed."""
        found = set()
        for number, share in self.buckets.by_key(
            pa.record_batch({"key": pa.array(values, self.kind)}), self.key
        ):
            mask = self.parts[number].contain(self.key.keys(share))
            found |= set(share.filter(pa.array(mask)).column("key").to_pylist())
        return found

    def since(self, value: Any, partition: int) -> tuple[int, bool]:
        """Return the offset of a key's promise in a partition, and whether a row made it."""
        ((number, share),) = self.buckets.by_key(
            pa.record_batch({"key": pa.array([value], self.kind)}), self.key
        )
        place = np.array([partition]), np.array([LATER])
        naming = self.parts[number].naming(self.key.keys(share), *place, None)
        return int(naming.since[0]), bool(naming.by_row[0])

    @property
    def memory(self) -> int:
        """The bytes of all segments in memory."""
        lists = (segments for part in self.parts for segments in part.lists().values())
        return sum(segment.memory for segments in lists for segment in segments.segments)


@contextmanager
def recent(offsets: int) -> Iterator[None]:
    """Forget the place of a promise after so many records."""
    with patch.object(closed_keys, "RECENT", offsets):
        yield


@pytest.mark.parametrize(
    ("total", "order"), [(10_000_000, "shuffled"), (1_000_000, "ascending"), (1_000_000, "descending")]
)
def test_ten_million_dense_keys_take_less_than_a_megabyte(tmp_path: Path, total: int, order: str) -> None:
    """Over all buckets together, in memory and in the snapshot; of several partitions, half of the keys below
    zero."""
    step = total // 20
    codes = np.arange(-total // 2, total // 2)
    if order == "descending":
        codes = codes[::-1].copy()
    if order == "shuffled":  # each batch in itself
        codes = np.random.default_rng(1).permuted(codes.reshape(-1, step), axis=1).ravel()
    shares = Shares(4, pa.int64(), tmp_path)
    for at in range(0, total, step):
        some = codes[at : at + step]
        shares.close(pa.array(some), some % 3, np.arange(2 * at, 2 * (at + step), 2))
    shares.restore()

    assert shares.memory < 1_000_000
    stored = [data for blobs in shares.blobs for data in blobs.blobs.values()]
    assert sum(map(len, [*stored, *shares.snapshots()])) < 1_000_000
    asked = [-total // 2 - 1, -total // 2, -1, 0, 1, total // 2 - 1, total // 2, TOP]
    assert shares.closed(asked) == set(asked[1:-2])


def test_dense_dates_and_booleans_are_ranges(tmp_path: Path) -> None:
    days = [date(1950, 1, 1) + timedelta(days=number) for number in range(40_000)]
    for kind, values in ((pa.date32(), days), (pa.bool_(), [False, True])):
        shares = Shares(3, kind, tmp_path)
        with recent(0):
            shares.close(pa.array(values, kind), [0] * len(values), range(len(values)))
            shares.close(pa.array(values[:1], kind), [1], [9])
        assert sum(part.ranges.ranges.rows for part in shares.parts) <= 3
        assert shares.closed(values) == set(values)


@pytest.mark.parametrize("kind", [pa.date32(), pa.bool_(), pa.timestamp("us", "UTC"), pa.string()])
def test_keys_of_any_type_stay_closed_in_more_buckets(tmp_path: Path, kind: pa.DataType) -> None:
    numbers = pa.array([0, 1] if pa.types.is_boolean(kind) else range(60), pa.int32())
    whole = numbers.cast(pa.int64()) if pa.types.is_timestamp(kind) else numbers
    values = whole.cast(kind).to_pylist()
    closed = [value for at, value in enumerate(values) if at % 7]
    shares = Shares(2, kind, tmp_path)
    with recent(0):
        shares.close(pa.array(closed, kind), [0] * len(closed), range(len(closed)))
        shares.split(3)
        shares.close(pa.array(closed[:1], kind), [1], [99])
    assert shares.closed(values) == set(closed)


def test_a_range_that_was_split_closes_no_later_key(tmp_path: Path) -> None:
    """With three buckets, a range that began with another bucket's key would close open keys behind it."""
    shares = Shares(1, pa.int64(), tmp_path)
    later = [key for key in range(40, 100) if key % 3]
    with recent(0), Merging(2, 1 << 19).limits():
        shares.close(pa.array(range(40)), [0] * 40, range(40))
        shares.split(3)
        for at, key in enumerate(later):
            shares.close(pa.array([key]), [0], [100 + at])
    assert shares.closed(range(100)) == {*range(40), *later}


def test_forgotten_ranges_are_open_however_many_keys_are_asked(tmp_path: Path) -> None:
    shares = Shares(1, pa.int64(), tmp_path, in_kafka=False)
    kept: list[int] = []
    forgotten: list[int] = []
    for number in range(20):
        values = list(range(1000 * number, 1000 * number + 5))
        old = number % 3 == 0
        (forgotten if old else kept).extend(values)
        shares.close(pa.array(values), [0] * 5, range(5 * number, 5 * number + 5), time=0 if old else 10)
    assert max(segment.rows for segment in shares.parts[0].ranges.ranges.segments) > 1
    shares.parts[0].expire(5)
    assert shares.closed(range(20_000)) == set(kept)
    assert [shares.closed([value]) for value in kept + forgotten] == [{key} for key in kept] + [set()] * len(
        forgotten
    )


KEYS = st.integers(-6, 30)
# How keys stand for numbers. The distance of the first and the last key of all is no number of 64 bits.
_PLACES: dict[str, Callable[[int], int]] = {
    "near": lambda number: number,
    "far": lambda number: TOP - 30 + number if number > 10 else number,
    "at both ends": lambda number: TOP - 30 + number if number >= 0 else BOTTOM + 6 + number,
}


@cases(30)
@given(
    batches=st.lists(
        st.lists(st.tuples(KEYS, st.integers(0, 3), st.booleans()), min_size=1, max_size=30), max_size=8
    ),
    below=st.lists(KEYS, max_size=2),
    buckets=BUCKETS,
    merging=MERGING,
    kept=st.integers(0, 12),
    restart=st.booleans(),
    apart=st.sampled_from(list(_PLACES)),
    split=st.tuples(st.integers(0, 7), st.integers(1, 3)),
)
def test_closed_keys_are_a_set(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[tuple[int, int, bool]]],
    below: list[int],
    buckets: int,
    merging: Merging,
    kept: int,
    restart: bool,
    *,
    apart: str,
    split: tuple[int, int],
) -> None:
    """A key is closed once it is named, and no other key ever is. The first promise of a key says what closed
    it, and its place is known while it is recent. Patterns drop keys without opening them. All of this holds
    when each bucket becomes several."""
    place = {number: _PLACES[apart](number) for number in range(-6, 31)}
    shares = Shares(buckets, pa.int64(), tmp_path_factory.mktemp("closed"), by_rows=True)
    first: dict[int, tuple[int, int, bool]] = {}
    offset, promised = 0, -7
    with merging.limits(), recent(kept):
        for number, batch in enumerate(batches):
            named = [(key, key % 3, offset + at, by_row) for at, (key, _, by_row) in enumerate(batch)]
            offset += len(batch)
            for key, partition, at, by_row in named:
                first.setdefault(key, (partition, at, by_row))
            shares.close(
                pa.array([place[key] for key, *_ in named]),
                [partition for _, partition, *_ in named],
                [at for _, _, at, _ in named],
                by_row=[int(by_row) for *_, by_row in named],
            )
            if number < len(below):
                promised = max(promised, below[number])
                pattern = Punctuation.of("s", {"key": Between(high=place[promised])}, Origin(0, offset))
                shares.patterns.add([pattern])
                for part in shares.parts:
                    part.forget()
            if restart:
                shares.restore()
            if number == split[0]:
                shares.split(split[1])

        closed = shares.closed(list(place.values()))
        assert {place[key] for key in first if key > promised} <= closed <= {place[key] for key in first}
        for key, (partition, at, by_row) in first.items():
            if key > promised:
                since, was_row = shares.since(place[key], partition)
                assert was_row == by_row
                assert since == at or (since == UNKNOWN and offset - 1 - at > kept)
        for key in set(place) - set(first):
            assert shares.since(place[key], 0) == (LATER, False)
