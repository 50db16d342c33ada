"""The n-ary join by hand: what it frees and announces, and when."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from endmark.errors import ConfigError
from endmark.operators.nary_join.join import NaryJoin
from endmark.operators.stream_batch import StreamBatch
from endmark.operators.stream_join.presets import Policy, Propagation
from endmark.operators.stream_join.side import SideSpec
from endmark.punctuation.pattern import Between, Equals, Pattern
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.state import row_bytes
from endmark.state.keys import KeySpec
from endmark.state.store import MemoryBlobs, SegmentStore

Rows = Sequence[tuple[int, int]]


def side(name: str, window: int | None = None, *, punctuated: bool = True) -> SideSpec:
    numbers = [(f"{name}_{column}", pa.int64()) for column in ("key", "v")]
    return SideSpec(
        name=name,
        key=KeySpec((f"{name}_key",)),
        time=f"{name}_at",
        schema=pa.schema([*numbers, (f"{name}_at", pa.timestamp("us", "UTC"))]),
        partition=None,
        offset=None,
        window=window,
        punctuated_on=(f"{name}_key", f"{name}_v") if punctuated else (f"{name}_v",),
    )


class Streams:
    """A join of streams, by name."""

    def __init__(self, directory: Path, specs: Sequence[SideSpec], policy: Policy | None = None) -> None:
        self._specs = specs
        store = SegmentStore(MemoryBlobs(), directory)
        self.join = NaryJoin(specs, store, policy=policy or Policy())

    def take(self, **inputs: StreamBatch) -> list[tuple[int, ...]]:
        """Join a batch; return the times of the rows of each result."""
        batches = [inputs.get(spec.name, StreamBatch()) for spec in self._specs]
        pieces = list(self.join.process(*batches))
        times = [
            [piece.column(f"{spec.name}_at").cast(pa.int64()).to_pylist() for spec in self._specs]
            for piece in pieces
        ]
        return sorted(result for columns in times for result in zip(*columns, strict=True))

    def announced(self) -> dict[str, list[int]]:
        return {by: keys.column("key").to_pylist() for by, keys in self.join.output.announced_by.items()}

    def held(self) -> list[int]:
        return [side.rows.rows for side in self.join.sides]

    def counts(self, metric: str) -> dict[str, int]:
        found = {name: count for (of, name), count in self.join.output.counts.items() if of == metric}
        return {name: count for name, count in found.items() if count}


def batch(
    name: str,
    rows: Rows = (),
    closed: Sequence[int] = (),
    reached: int | None = None,
    promise: dict[str, Pattern] | None = None,
) -> StreamBatch:
    """A batch of rows of (key, time), closed keys, an event time that the stream has reached, a pattern."""
    keys, times = [key for key, _ in sorted(rows)], [time for _, time in sorted(rows)]
    columns = [pa.array(keys, pa.int64()), pa.array(times, pa.int64())]
    given = pa.record_batch([*columns, columns[1].cast(pa.timestamp("us", "UTC"))], schema=side(name).schema)
    nothing = pa.array([0] * len(closed), pa.int64())
    names = ["key", "partition", "offset"]
    entries = pa.record_batch([pa.array(closed, pa.int64()), nothing, nothing], names=names)
    promises = [] if promise is None else [Punctuation.of(name, promise, Origin(0, 0))]
    return StreamBatch(
        rows=given if rows else None,
        closed_keys=entries if closed else None,
        promises=promises,
        key_promises=side(name).codec.on_key(promises),
        newest={} if reached is None else {0: reached},
    )


def test_each_row_has_its_own_window(tmp_path: Path) -> None:
    """The bound belongs to the window; columns are in the order of sides, whichever side has fewer rows."""
    streams = Streams(tmp_path, [side("a", 5), side("b", 1), side("c")])

    assert streams.take(a=batch("a", [(1, 95)]), b=batch("b", [(1, 100)]), c=batch("c", [(1, 0)])) == [
        (95, 100, 0)
    ]
    assert streams.take(c=batch("c", [(1, 100), (1, 101), (1, 102), (2, 100)])) == [(95, 100, 100)]


def test_a_key_without_a_partner_hides_no_other(tmp_path: Path) -> None:
    """The smallest side has no row of key 1, so only key 2 is sought in the others."""
    streams = Streams(tmp_path, [side(name) for name in "abc"])
    streams.take(b=batch("b", [(2, 5)]), c=batch("c", [(1, 6), (2, 7)]))

    assert streams.take(a=batch("a", [(1, 8), (2, 9)])) == [(9, 5, 7)]


def test_a_row_waits_for_all_other_sides_to_close(tmp_path: Path) -> None:
    streams = Streams(tmp_path, [side(name) for name in "abc"])
    rows = {name: batch(name, [(1, 0)]) for name in "bc"}
    assert streams.take(a=batch("a", [(1, 0)], closed=[1]), **rows) == [(0, 0, 0)]
    assert (streams.held(), streams.announced()) == ([1, 1, 1], {})

    assert streams.take(b=batch("b", closed=[1])) == []
    assert (streams.held(), streams.announced()) == ([1, 1, 0], {})
    assert streams.counts("join_purged_rows_total") == {"c": 1}
    assert streams.take(c=batch("c", [(1, 3)])) == [(0, 0, 3)]
    assert streams.counts("join_dropped_rows_total") == {"c": 1}
    streams.take(c=batch("c", closed=[1]))
    assert (streams.held(), streams.announced()) == ([0, 0, 0], {"closed": [1]})


def test_a_closed_side_without_rows_ends_a_key_for_all(tmp_path: Path) -> None:
    """Rows of open sides, which wait for each other, are of no use without a row of the closed side."""
    streams = Streams(tmp_path, [side("a", 5), side("b"), side("c")])
    streams.take(a=batch("a", [(1, 0)], closed=[1]), b=batch("b", [(1, 1)]), c=batch("c", [(1, 2), (2, 2)]))
    streams.take(b=batch("b", reached=6))
    assert (streams.held(), streams.announced()) == ([1, 1, 2], {})

    streams.take(c=batch("c", reached=6))
    assert (streams.held(), streams.announced()) == ([0, 0, 1], {"expired": [1]})
    assert streams.counts("join_invalidated_rows_total") == {"a": 1}
    assert streams.counts("join_purged_rows_total") == {"b": 1, "c": 1}
    streams.take(a=batch("a", closed=[2]))
    assert (streams.held(), streams.announced()) == ([0, 0, 0], {"closed": [2]})
    streams.take(b=batch("b", [(2, 8)], closed=[1, 2]))
    assert (streams.held(), streams.announced()) == ([0, 0, 0], {})


def test_a_row_is_freed_by_windows_and_closed_keys_together(tmp_path: Path) -> None:
    """One side has closed its key, and the other one's progress leaves its window."""
    streams = Streams(tmp_path, [side("a", 5), side("b"), side("c")])
    streams.take(a=batch("a", [(1, 0)]), b=batch("b", [(1, 0)], closed=[1]))
    streams.take(c=batch("c", reached=5))
    assert streams.held() == [1, 1, 0]

    streams.take(c=batch("c", reached=6))
    assert streams.held() == [0, 1, 0]
    assert streams.announced() == {}  # b keeps its row, which later rows of a and c can join


def test_an_interval_closes_keys_never_seen(tmp_path: Path) -> None:
    """Keys that another side holds are final; one that the closing side holds is pending."""
    streams = Streams(tmp_path, [side(name) for name in "abc"])
    streams.take(a=batch("a", [(3, 0)]), b=batch("b", [(3, 0), (5, 0)]), c=batch("c", [(7, 0)]))
    streams.take(a=batch("a", promise={"a_key": Between(1, 9)}))

    assert (streams.held(), streams.join.output.widened) == ([1, 1, 0], True)
    keys = streams.join.sides[0].key.keys(pa.record_batch({"key": [3, 4, 5, 7, 10]}))
    assert streams.join.final(keys).tolist() == [False, True, True, True, False]
    assert streams.join.output.patterns.waiting == ['{"a_key": {"between": {"from": 1, "to": 9}}}']
    streams.take(b=batch("b", closed=[3]))
    assert streams.join.final(keys).tolist() == [False, True, True, True, False]
    streams.take(c=batch("c", closed=[3]))
    assert streams.announced() == {"closed": [3]}
    assert streams.join.output.patterns.released == {'{"a_key": {"between": {"from": 1, "to": 9}}}': "closed"}


def test_patterns_are_announced_for_streams_that_punctuate_no_key(tmp_path: Path) -> None:
    """A pattern beside the key is announced for its own stream alone."""
    specs = [side("a"), side("b", punctuated=False), side("c", punctuated=False)]
    streams = Streams(tmp_path, specs)
    streams.take(a=batch("a", promise={"a_key": Between(high=4)}))
    texts = [f'{{"{name}_key": {{"between": {{"to": 4}}}}}}' for name in "abc"]
    assert streams.join.output.patterns.released == dict.fromkeys(texts, "closed")

    streams.take(a=batch("a", promise={"a_v": Equals(7)}))
    assert list(streams.join.output.patterns.released) == ['{"a_v": {"equals": 7}}']
    later = batch("b", promise={"b_v": Equals(7)}).promises
    streams.join.expect(streams.join.sides[1], later)
    assert streams.join.output.patterns.waiting == ['{"b_v": {"equals": 7}}']


@pytest.mark.parametrize(("rule", "held"), [(Propagation.CLOSED, [2, 1]), (Propagation.EARLY, [1, 0])])
def test_purging_waits_if_keys_are_announced_when_all_sides_have_closed(
    tmp_path: Path, rule: Propagation, held: list[int]
) -> None:
    """Rows that come after their key was closed do not wait."""
    streams = Streams(tmp_path, [side("a"), side("b")], Policy(purge_every=3, propagate=rule))
    streams.take(a=batch("a", [(1, 0), (2, 0)]), b=batch("b", [(3, 0)]))
    streams.take(a=batch("a", [(4, 0)], closed=[3, 5]), b=batch("b", closed=[2, 4]))
    assert streams.held() == held

    streams.take()
    assert streams.held() == [1, 0]


@pytest.mark.parametrize("names", ["", "a", "aba"])
def test_impossible_joins_are_refused(tmp_path: Path, names: str) -> None:
    with pytest.raises(ConfigError, match="two or more inputs of different names"):
        Streams(tmp_path, [side(name) for name in names])


def test_results_of_long_rows_come_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece was bounded by its rows alone, and Arrow refuses a column with 2 GiB of text."""
    monkeypatch.setattr(row_bytes, "BYTES_AT_ONCE", 200)
    specs = [side(name) for name in "abc"]
    join = NaryJoin(specs, SegmentStore(MemoryBlobs(), tmp_path))

    inputs = batch("a", [(1, 0)]), batch("b", [(1, at) for at in range(9)]), batch("c", [(1, 0)])
    pieces = list(join.process(*inputs))

    assert max(piece.nbytes for piece in pieces) <= 200
    times = [time for piece in pieces for time in piece.column("b_at").cast(pa.int64()).to_pylist()]
    assert sorted(times) == list(range(9))
