"""The gates of several lookups let a batch out when all have answered, and the same one if it is repeated."""

from __future__ import annotations

import copy
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from endmark.operators.lookup.gate import MISSED, ROW, Gate, GatedLookup, GateSpec, side_by_side
from endmark.operators.lookup.held_batches import BATCH
from endmark.operators.lookup.join import LookupSpec, Misses, Source
from endmark.operators.lookup.read_timing import measure
from endmark.operators.lookup.reader import Budget
from endmark.operators.promise_codec import PromiseCodec
from endmark.operators.stream_batch import StreamBatch
from endmark.punctuation.pattern import Equals
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.state.keys import KeySpec
from endmark.state.store import MemoryBlobs, SegmentStore
from support.cases import cases
from support.memory_relation import MemoryRelation
from support.small_reads import small_reads

KEYS = range(6)
HELD = [(0, 0, 1, 2, 4), (1, 2, 3), (0, 2, 5, 5)]  # keys of each relation; some have a key twice
STEP, DELAY = 10, 15  # from batch to batch, and until a parked row is asked for again
FATES = [Misses("drop"), Misses("nulls"), Misses("drop", 2, DELAY), Misses("nulls", 2, DELAY)]
JOIN_KEY = KeySpec.of(["name"], [pa.string()])
BY_ROW = KeySpec.of([ROW], [pa.int64()])
SCHEMA = pa.schema(
    [("n", pa.int64()), ("id", pa.int64()), ("name", pa.string()), (ROW, pa.int64()), (BATCH, pa.int64())]
)
CODEC = PromiseCodec("s", pa.schema([("n", pa.int64())]), JOIN_KEY)
# Rows by number and what each relation has for them, rows given up by number and by whom, promises, progress.
Said = tuple[Counter[tuple[Any, ...]], dict[int, int], list[Punctuation], dict[int, int]]
NOTHING: Said = (Counter(), {}, [], {})


@dataclass(frozen=True)
class Given:
    """A batch: keys of its rows, how much each of its attempts reads of each relation, and whether it is a
    pause."""

    keys: list[int]
    reads: list[list[int]]
    pause: bool


@dataclass(frozen=True)
class How:
    """One of the lookups."""

    misses: Misses
    carries: bool
    capacity: int | None


HISTORIES = st.lists(
    st.builds(
        Given,
        keys=st.lists(st.sampled_from(KEYS), max_size=6),
        reads=st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), min_size=1, max_size=2),
        pause=st.sampled_from([False, False, False, True]),
    ),
    max_size=7,
)
LOOKUPS = st.lists(
    st.builds(How, st.sampled_from(FATES), st.booleans(), st.sampled_from([None, 1])), min_size=1, max_size=3
)


def _promises(number: int) -> list[Punctuation]:
    return [Punctuation.of("s", {"n": Equals(number)}, Origin(0, number))]


def _batch(number: int, keys: list[int], first: int) -> StreamBatch:
    count = range(first, first + len(keys))
    columns = {"n": list(count), "id": keys}
    arrays = {name: pa.array(values, pa.int64()) for name, values in columns.items()}
    names = pa.array([f"{key % 3}" for key in keys], pa.string())
    rows = JOIN_KEY.coded(pa.record_batch({**arrays, "name": names}))
    return StreamBatch(rows=rows if keys else None, promises=_promises(number), newest={0: number})


def _said(one: StreamBatch, count: int) -> Said:
    rows = [] if one.rows is None else one.rows.to_pylist()
    missed = [] if one.bystanders is None else one.bystanders.to_pylist()
    for batch in (one.rows, one.bystanders):
        assert batch is None or (JOIN_KEY.order(batch) == range(batch.num_rows)).all()
        assert batch is None or batch.column("$code").equals(
            JOIN_KEY.coded(batch.drop_columns(["$code"]))["$code"]
        )
    found = Counter((row["n"], *(row[f"v{place}"] for place in range(count))) for row in rows)
    given_up = {row["n"]: row[MISSED] for row in missed}
    assert len(given_up) == len(missed)
    return found, given_up, list(one.promises), dict(one.newest)


def _expected(number: int, keys: list[int], first: int, lookups: list[How]) -> Said:
    found: Counter[tuple[Any, ...]] = Counter()
    given_up: dict[int, int] = {}
    for n, key in enumerate(keys, first):
        made: list[tuple[Any, ...]] = [(n,)]
        for place, how in enumerate(lookups):
            matches: list[str | None] = [f"{place}: {key}" for held in HELD[place] if held == key]
            if not matches and how.misses.fate == "drop":
                given_up.setdefault(n, place)
            made = [(*row, match) for row in made for match in matches or [None]]
        found.update(made if n not in given_up else [])
    return found, given_up, _promises(number), {0: number}


class _Run:
    """Gates that are restored before every attempt at a batch."""

    def __init__(self, lookups: list[How], directory: Path) -> None:
        self._lookups = lookups
        self._sources = [self._source(place) for place in range(len(lookups))]
        self._directory = directory
        self._blobs = MemoryBlobs()
        self._snapshots: list[bytes | None] = [None] * len(lookups)
        self.due: int | None = None
        self.now = 0

    def _source(self, place: int) -> Source:
        keys = HELD[place]
        rows = pa.record_batch({"k": pa.array(keys, pa.int64()), "v": [f"{place}: {key}" for key in keys]})
        relation = MemoryRelation(rows, ("k",))
        pages = relation.directory(1)
        return Source(relation, pages, "hybrid", measure(relation, pages))

    def _lookup(self, place: int, store: SegmentStore, reads: int) -> GatedLookup:
        how = self._lookups[place]
        key = KeySpec.of(["id"], [pa.int64()])
        lookup = LookupSpec(SCHEMA, key, {"v": f"v{place}"}, how.misses, Budget(reads=reads), how.capacity)
        spec = GateSpec(lookup, BY_ROW, CODEC, ("n", "id", "name"), how.carries, place)
        if place == 0:
            spec = GateSpec(lookup, JOIN_KEY, CODEC, (), how.carries)
        return GatedLookup(spec, copy.deepcopy(self._sources[place]), store, None, self._snapshots[place])

    def attempts(self, came: StreamBatch, batch: Given) -> Iterator[list[Said]]:
        """What each attempt lets in, each a little later than the one before; the last one counts."""
        before = self._blobs.blobs
        for reads in batch.reads:
            self._blobs = MemoryBlobs()
            self._blobs.blobs = dict(before)
            store = SegmentStore(self._blobs, self._directory)
            made = [self._lookup(place, store, reads[place]) for place in range(len(self._lookups))]
            gate = Gate(made)
            self.now += 1
            entering = gate.enter(side_by_side(gate.asks([came], self.now, pause=batch.pause)))
            yield [_said(one, len(made)) for one in entering]
            snapshots = [gated.snapshot() for gated in made]
        self._snapshots, self.due = list(snapshots), gate.due(self.now)


@cases(25)
@given(history=HISTORIES, lookups=LOOKUPS)
def test_lookups_of_a_stream_enter_together(history: list[Given], lookups: list[How]) -> None:
    """In the order of batches, each whole, with what every relation has; batches that come when they are due
    bring on all there is, then none is due."""
    entered: list[Said] = []
    expected: list[Said] = []
    rows = number = 0
    with tempfile.TemporaryDirectory() as directory, small_reads(2):
        run = _Run(lookups, Path(directory))
        while number < len(history) or run.due is not None:
            batch, came = Given([], [[0, 0, 0]], True), StreamBatch()
            if number < len(history):
                batch = history[number]
                came = _batch(number, batch.keys, rows)
                expected.append(_expected(number, batch.keys, rows, lookups))
                rows += len(batch.keys)
            run.now = max(run.now, STEP * number if number < len(history) else run.due or 0)
            attempts = list(run.attempts(came, batch))
            assert attempts[0] == attempts[-1]
            entered += [one for one in attempts[-1] if one != NOTHING]
            assert entered == expected[: len(entered)]
            parks = any(how.misses.attempts > 1 for how in lookups)
            assert not batch.pause or parks or len(entered) == len(expected)
            assert (run.due is None) == (len(entered) == len(expected))
            number += 1
            assert number < 4 * (len(history) + 1)
    assert len(entered) == len(expected)
