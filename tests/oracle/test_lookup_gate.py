"""A gate lets out the batches that came in, each whole, and the same ones if a batch is repeated."""

from __future__ import annotations

import copy
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.operators.lookup.gate import Gate, GatedLookup, GateSpec, side_by_side
from endmark.operators.lookup.held_batches import BATCH
from endmark.operators.lookup.join import LookupSpec, Misses, Source
from endmark.operators.lookup.read_timing import measure
from endmark.operators.lookup.reader import Budget
from endmark.operators.lookup.strategies import STRATEGIES, Name
from endmark.operators.promise_codec import PromiseCodec
from endmark.operators.stream_batch import RunNews, StreamBatch
from endmark.operators.stream_join.order import Mark, marks_table
from endmark.punctuation.pattern import Equals
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.state.keys import CODE, KeySpec
from endmark.state.store import MemoryBlobs, SegmentStore
from support.cases import cases
from support.memory_relation import MemoryRelation
from support.small_reads import small_reads

KEYS = range(6)  # of which R has the even ones
JOIN_KEY = KeySpec.of(["name"], [pa.string()])
SCHEMA = pa.schema([("n", pa.int64()), ("id", pa.int64()), ("name", pa.string()), (BATCH, pa.int64())])
CODEC = PromiseCodec("s", pa.schema([("n", pa.int64())]), JOIN_KEY)
RELATION, GROWN = (
    pa.record_batch({"k": pa.array(keys, pa.int64()), "v": [f"v{key}" for key in keys]})
    for keys in (KEYS[::2], KEYS)
)
DROP = Misses("drop")
DELAY = 15  # while batches are 10 apart
IN_STATE = ["n", "id", "name", "r_v", CODE]
# Rows with their value or `None` for a miss, promises, progress, then keys closed, marks and runs.
Said = tuple[Counter[tuple[int, str | None]], list[Punctuation], dict[int, Any], list[list[dict[str, Any]]]]


@dataclass(frozen=True)
class Given:
    """A batch: keys of its rows, how many reads each of its attempts has time for, whether it is a pause."""

    keys: list[int]
    closed: list[int]
    promised: bool
    reads: list[int]
    pause: bool


HISTORIES = st.lists(
    st.builds(
        Given,
        keys=st.lists(st.sampled_from(KEYS), max_size=8),
        closed=st.lists(st.sampled_from(KEYS), max_size=2, unique=True),
        promised=st.sampled_from([False, False, False, False, True]),
        reads=st.lists(st.integers(0, 3), min_size=1, max_size=2),
        pause=st.sampled_from([False, False, False, False, True]),
    ),
    max_size=8,
)


def _batch(number: int, batch: Given, first: int) -> StreamBatch:
    ids = pa.array(batch.keys, pa.int64())
    rows = pa.record_batch(
        {
            "n": pa.array(range(first, first + len(ids)), pa.int64()),
            "id": ids,
            "name": pa.array([f"{key % 3}" for key in batch.keys], pa.string()),
        }
    )
    key, last = JOIN_KEY.shared, [f"{key}" for key in batch.closed]
    closed = key.sorted(key.coded(pa.record_batch({"key": pa.array(last, pa.string())})))
    began = pa.record_batch({"key": pa.array([f"{number}"]), "partition": pa.array([number % 2])})
    promises = [Punctuation.of("s", {"n": Equals(number)}, Origin(0, number))] if batch.promised else []
    return StreamBatch(
        rows=JOIN_KEY.coded(rows) if batch.keys else None,
        closed_keys=closed if batch.closed else None,
        promises=promises,
        key_promises=CODEC.on_key(promises),
        newest={number % 2: number},
        heard={2: (number, number)},
        marks=marks_table([(number % 2, Mark(number, first))], pa.int64()) if batch.closed else None,
        runs=RunNews(closed, began, key.coded(began)) if batch.closed else RunNews(),
    )


def _said(one: StreamBatch) -> Said:
    found: Counter[tuple[int, str | None]] = Counter()
    for rows in (one.rows, one.bystanders):
        for row in [] if rows is None else rows.to_pylist():
            assert BATCH not in row
            found[row["n"], row.get("r_v")] += 1
        assert one.rows is None or one.rows.schema.names == IN_STATE
        assert rows is None or (JOIN_KEY.order(rows) == range(rows.num_rows)).all()
    told = [[] if told is None else told.to_pylist() for told in (one.closed_keys, one.marks, *one.runs)]
    return found, [*one.promises, *one.key_promises], {**one.newest, **one.heard}, told


def _expected(came: StreamBatch) -> Said:
    rows = [] if came.rows is None else came.rows.to_pylist()
    found = Counter((row["n"], None if row["id"] % 2 else f"v{row['id']}") for row in rows)
    return (found, *_said(replace(came, rows=None))[1:])


class _Run:
    """A gate that is restored before every attempt at a batch."""

    def __init__(self, strategy: Name, capacity: int | None, directory: Path, misses: Misses = DROP) -> None:
        relation = MemoryRelation(RELATION, ("k",))
        pages = relation.directory(1)
        self._source = Source(relation, pages, strategy, measure(relation, pages))
        lookup = LookupSpec(SCHEMA, KeySpec.of(["id"], [pa.int64()]), {"v": "r_v"}, misses, capacity=capacity)
        self._spec = GateSpec(lookup, JOIN_KEY, CODEC, carries=True)
        self._directory = directory
        self._blobs = MemoryBlobs()
        self._snapshot: bytes | None = None
        self.due: int | None = None
        self.now = 0

    def grow(self) -> None:
        """R has all keys from now on."""
        self._source = replace(self._source, reader=MemoryRelation(GROWN, ("k",)))

    def attempts(self, came: StreamBatch, batch: Given) -> Iterator[list[Said]]:
        """Yield the output of each attempt, each a little later than the one before; the last one counts."""
        before = self._blobs.blobs
        for reads in batch.reads:
            self._blobs = MemoryBlobs()
            self._blobs.blobs = dict(before)
            lookup = replace(self._spec.lookup, budget=Budget(reads=reads))
            store = SegmentStore(self._blobs, self._directory)
            gated = GatedLookup(
                replace(self._spec, lookup=lookup), copy.deepcopy(self._source), store, None, self._snapshot
            )
            gate, held = Gate([gated]), gated.held.memory
            self.now += 1
            answers = side_by_side(gate.asks([came], self.now, pause=batch.pause))
            yield [_said(one) for one in gate.enter(answers)]
            if lookup.capacity is not None:
                assert gated.output.pending_bytes <= max(0, lookup.capacity - held)
            snapshot = gated.snapshot()
        self._snapshot, self.due = snapshot, gate.due(self.now)


@pytest.mark.parametrize("strategy", list(STRATEGIES))
@cases(8, among=7)
@given(history=HISTORIES, capacity=st.sampled_from([None, 1, 100, 200]))
def test_batches_enter_the_join_as_they_came(
    strategy: Name, history: list[Given], capacity: int | None
) -> None:
    """In their order, each whole and with what it says of the stream, all of them in a pause; a batch that is
    repeated lets in what it let in, however much of R it has time to read."""
    entered: list[Said] = []
    expected: list[Said] = []
    nothing = _said(StreamBatch())
    with tempfile.TemporaryDirectory() as directory, small_reads(2):
        run, rows = _Run(strategy, capacity, Path(directory)), 0
        for number, batch in enumerate([*history, Given([], [], False, [0], True)]):
            came = _batch(number, batch, rows)
            rows += len(batch.keys)
            expected.append(_expected(came))
            attempts = list(run.attempts(came, batch))
            assert attempts[0] == attempts[-1]
            entered += [one for one in attempts[-1] if one != nothing]
            assert entered == expected[: len(entered)]
            assert not batch.pause or len(entered) == len(expected)
            assert batch.pause or (run.due is None) == (len(entered) == len(expected))


@cases(8)
@given(
    history=HISTORIES,
    strategy=st.sampled_from(list(STRATEGIES)),
    asked=st.integers(2, 3),
    growth=st.integers(0, 12),
    among=st.booleans(),
)
def test_parked_rows_enter_as_the_others(
    history: list[Given], strategy: Name, asked: int, growth: int, *, among: bool
) -> None:
    """In their order and whole, with what R has by when it was asked last; a batch that is repeated lets in
    what it let in, later and with another R. Batches that come when they are due bring on all there is, then
    none is due."""
    entered: list[Said] = []
    expected: list[Said] = []
    came_at: dict[int, int] = {}
    nothing, grown = _said(StreamBatch()), 1 << 60
    with tempfile.TemporaryDirectory() as directory:
        run = _Run(strategy, None, Path(directory), Misses("drop", asked, DELAY))
        number = 0
        while number < len(history) or run.due is not None:
            batch = history[number] if number < len(history) else Given([], [], False, [0], True)
            run.now = max(run.now, 10 * number if number < len(history) else run.due or 0)
            came = _batch(number, batch, len(came_at)) if number < len(history) else StreamBatch()
            came_at |= {len(came_at) + at: run.now for at in range(len(batch.keys))}
            expected += [_expected(came)] if number < len(history) else []
            attempts = []
            for at, attempt in enumerate(run.attempts(came, batch)):
                attempts.append(attempt)
                if number == growth and among == (at == 0):
                    run.grow()
                    grown = run.now
            assert attempts[0] == attempts[-1]
            entered += [one for one in attempts[-1] if one != nothing]
            number += 1
            assert number < len(history) + 2 * asked * (len(history) + 1)
    assert [_of_any_answer(one) for one in entered] == [_of_any_answer(one) for one in expected]
    found = dict(pair for one in entered for pair in one[0])
    for n, key in enumerate(key for batch in history for key in batch.keys):
        always, in_time = key % 2 == 0, grown < came_at[n] + (asked - 1) * DELAY
        assert found[n] in ([f"v{key}"] if always or in_time else [f"v{key}", None])
        assert grown < 1 << 60 or always or found[n] is None


def _of_any_answer(said: Said) -> Any:
    return Counter(n for n, _ in said[0].elements()), *said[1:]
