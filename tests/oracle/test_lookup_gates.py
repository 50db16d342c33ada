"""The gates of several lookups let a batch out when all have answered, and the same one if it is repeated.

A lookup may ask by what an earlier one has found. DuckDB says what comes out.
"""

from __future__ import annotations

import copy
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
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
# The keys and values of each relation; some have a key twice, and values are keys of other relations.
HELD: list[list[tuple[int, int | None]]] = [
    [(0, 1), (0, 5), (1, 0), (2, None), (4, 3)],
    [(1, 2), (2, 2), (3, 0)],
    [(0, 4), (2, 1), (5, 3), (5, 3)],
    [(1, 0), (3, 5), (4, None), (4, 2)],
]
STEP, DELAY = 10, 15  # from batch to batch, and until a parked row is asked for again
FATES = [Misses("drop"), Misses("nulls"), Misses("drop", 2, DELAY), Misses("nulls", 2, DELAY)]
JOIN_KEY = KeySpec.of(["name"], [pa.string()])
BY_ROW = KeySpec.of([ROW], [pa.int64()])
RECORD = ("part", "n")
STREAM = [("part", pa.int64()), ("n", pa.int64()), ("id", pa.int64()), ("name", pa.string())]
CODEC = PromiseCodec("s", pa.schema([("n", pa.int64())]), JOIN_KEY)
# Rows by number and what each relation has for them, rows given up by number and by whom, promises, progress.
Said = tuple[Counter[tuple[Any, ...]], dict[int, int], list[Punctuation], dict[int, int]]
NOTHING: Said = (Counter(), {}, [], {})

_DUCKDB = duckdb.connect()


@dataclass(frozen=True)
class Given:
    """A batch: keys of its rows, how much each of its attempts reads of each relation, and whether it is a
    pause."""

    keys: list[int | None]
    reads: list[list[int]]
    pause: bool


@dataclass(frozen=True)
class How:
    """One of the lookups. It asks by `by`, and begins a level if `begins` says so."""

    by: str
    begins: bool
    misses: Misses
    carries: bool
    capacity: int | None


HISTORIES = st.lists(
    st.builds(
        Given,
        keys=st.lists(st.sampled_from([*KEYS, *KEYS, None]), max_size=6),
        reads=st.lists(st.lists(st.integers(0, 2), min_size=4, max_size=4), min_size=1, max_size=2),
        pause=st.sampled_from([False, False, False, True]),
    ),
    max_size=7,
)


@st.composite
def lookups(draw: st.DrawFn) -> list[How]:
    """Lookups in their order. One that asks by what another of its level would find begins a new level."""
    found: list[How] = []
    level: set[str] = set()
    for place in range(draw(st.integers(1, len(HELD)))):
        by = draw(st.sampled_from(["id", *(f"v{earlier}" for earlier in range(place))]))
        begins = place == 0 or by in level or draw(st.integers(0, 4)) == 0
        level = {*(set() if begins else level), f"v{place}"}
        how = How(
            by,
            begins,
            draw(st.sampled_from(FATES)),
            draw(st.booleans()),
            draw(st.sampled_from([None, 1])),
        )
        found.append(how)
    return found


def _promises(number: int) -> list[Punctuation]:
    return [Punctuation.of("s", {"n": Equals(number)}, Origin(0, number))]


def _batch(number: int, keys: list[int | None], first: int) -> StreamBatch:
    count = range(first, first + len(keys))
    columns = {"part": [n % 2 for n in count], "n": list(count), "id": keys}
    arrays = {name: pa.array(values, pa.int64()) for name, values in columns.items()}
    names = pa.array([f"{n % 3}" for n in count], pa.string())
    rows = JOIN_KEY.coded(pa.record_batch({**arrays, "name": names}))
    return StreamBatch(rows=rows if keys else None, promises=_promises(number), newest={0: number})


def _said(one: StreamBatch, count: int) -> Said:
    rows = [] if one.rows is None else one.rows.to_pylist()
    missed = [] if one.bystanders is None else one.bystanders.to_pylist()
    for batch in (one.rows, one.bystanders):
        assert batch is None or not {ROW, BATCH} & set(batch.schema.names)
        assert batch is None or (JOIN_KEY.order(batch) == range(batch.num_rows)).all()
        assert batch is None or batch.column("$code").equals(
            JOIN_KEY.coded(batch.drop_columns(["$code"]))["$code"]
        )
    assert one.bystanders is None or set(one.bystanders.schema.names) == {
        *(name for name, _ in STREAM),
        MISSED,
        "$code",
    }
    found = Counter((row["n"], *(row[f"v{place}"] for place in range(count))) for row in rows)
    given_up = {row["n"]: row[MISSED] for row in missed}
    assert len(given_up) == len(missed)
    return found, given_up, list(one.promises), dict(one.newest)


def _expected(number: int, keys: list[int | None], first: int, lookups: list[How]) -> Said:
    """Join after join, by DuckDB. A record is given up by the lookup that leaves none of its rows."""
    numbers = pa.array(range(first, first + len(keys)), pa.int64())
    rows = pa.table({"n": numbers, "id": pa.array(keys, pa.int64())})
    given_up: dict[int, int] = {}
    for place, how in enumerate(lookups):
        held = pa.table([_held(place, column) for column in (0, 1)], names=["k", f"v{place}"])
        _DUCKDB.register("came", rows)
        _DUCKDB.register("held", held)
        join = "LEFT JOIN" if how.misses.fate == "nulls" else "JOIN"
        query = f"SELECT came.*, v{place} FROM came {join} held ON k = came.{how.by}"  # noqa: S608
        joined = _DUCKDB.sql(query).to_arrow_table()
        gone = set(rows.column("n").to_pylist()) - set(joined.column("n").to_pylist())
        given_up |= dict.fromkeys(gone, place)
        rows = joined
    found = Counter(tuple(row.values()) for row in rows.drop_columns(["id"]).to_pylist())
    return found, given_up, _promises(number), {0: number}


def _held(place: int, column: int) -> pa.Array:
    return pa.array([row[column] for row in HELD[place]], pa.int64())


class _Run:
    """Gates that are restored before every attempt at a batch."""

    def __init__(self, lookups: list[How], directory: Path) -> None:
        self._lookups = lookups
        self._levels: list[list[int]] = []
        for place, how in enumerate(lookups):
            self._levels += [[]] if how.begins else []
            self._levels[-1].append(place)
        self._sources = [self._source(place) for place in range(len(lookups))]
        self._directory = directory
        self._blobs = MemoryBlobs()
        self._snapshots: list[bytes | None] = [None] * len(lookups)
        self.due: int | None = None
        self.held: list[Punctuation] = []
        self.since: int | None = None
        self.now = 0

    def _source(self, place: int) -> Source:
        held = pa.record_batch({"k": _held(place, 0), "v": _held(place, 1)})
        relation = MemoryRelation(held, ("k",))
        pages = relation.directory(1)
        return Source(relation, pages, "hybrid", measure(relation, pages))

    def _lookup(self, place: int, level: list[int], store: SegmentStore, reads: int) -> GatedLookup:
        how, earlier = self._lookups[place], [f"v{before}" for before in range(level[0])]
        several = [(ROW, pa.int64())] if len(level) > 1 else []
        found = [(name, pa.int64()) for name in earlier]
        schema = pa.schema([*STREAM, *several, *found, (BATCH, pa.int64())])
        key = KeySpec.of([how.by], [pa.int64()])
        lookup = LookupSpec(schema, key, {"v": f"v{place}"}, how.misses, Budget(reads=reads), how.capacity)
        first = place == level[0]
        spec = GateSpec(
            lookup,
            JOIN_KEY if first else BY_ROW,
            CODEC,
            () if first else (*(name for name, _ in STREAM), *earlier),
            how.carries,
            place,
            RECORD if level[0] else (),
            tuple(earlier),
        )
        return GatedLookup(spec, copy.deepcopy(self._sources[place]), store, None, self._snapshots[place])

    def attempts(self, came: StreamBatch, batch: Given) -> Iterator[list[Said]]:
        """Yield the output of each attempt, each a little later than the one before; the last one counts."""
        before = self._blobs.blobs
        for reads in batch.reads:
            self._blobs = MemoryBlobs()
            self._blobs.blobs = dict(before)
            store = SegmentStore(self._blobs, self._directory)
            made = [
                [self._lookup(place, level, store, reads[place]) for place in level] for level in self._levels
            ]
            gates = [Gate(level) for level in made]
            self.now += 1
            entering = [came]
            for gate in gates:
                entering = gate.enter(side_by_side(gate.asks(entering, self.now, pause=batch.pause)))
            yield [_said(one, len(self._lookups)) for one in entering]
            snapshots = [gated.snapshot() for level in made for gated in level]
        self._snapshots = list(snapshots)
        self.due = min((due for gate in gates if (due := gate.due(self.now)) is not None), default=None)
        self.held = [promise for gate in gates for promise in gate.held_promises]
        self.since = min((gate.waits_since for gate in gates if gate.waits_since is not None), default=None)


@cases(8)
@given(history=HISTORIES, lookups=lookups())
def test_lookups_of_a_stream_enter_together(history: list[Given], lookups: list[How]) -> None:
    """In the order of batches, each whole, with what every relation has; batches that come when they are due
    bring on all there is, then none is due."""
    entered: list[Said] = []
    expected: list[Said] = []
    came_at: list[int] = []
    rows = number = 0
    with tempfile.TemporaryDirectory() as directory, small_reads(2):
        run = _Run(lookups, Path(directory))
        while number < len(history) or run.due is not None:
            batch, came = Given([], [[0, 0, 0, 0]], True), StreamBatch()
            if number < len(history):
                batch = history[number]
                came = _batch(number, batch.keys, rows)
                expected.append(_expected(number, batch.keys, rows, lookups))
                rows += len(batch.keys)
            run.now = max(run.now, STEP * number if number < len(history) else run.due or 0)
            attempts = list(run.attempts(came, batch))
            came_at.append(run.now)
            assert attempts[0] == attempts[-1]
            entered += [one for one in attempts[-1] if one != NOTHING]
            assert entered == expected[: len(entered)]
            parks = any(how.misses.attempts > 1 for how in lookups)
            assert not batch.pause or parks or len(entered) == len(expected)
            assert (run.due is None) == (len(entered) == len(expected))
            said = [promise for one in expected[len(entered) :] for promise in one[2]]
            assert {promise.origin for promise in run.held} == {promise.origin for promise in said}
            assert run.since == (came_at[len(entered)] if said else None)
            number += 1
            assert number < 4 * len(lookups) * (len(history) + 1)
    assert len(entered) == len(expected)
