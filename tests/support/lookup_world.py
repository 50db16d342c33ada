"""Random histories of a lookup join: a relation, a stream in batches, restarts, and how it is run."""

from __future__ import annotations

from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
from hypothesis import strategies as st

from endmark.operators.lookup.costs import ReadCosts
from endmark.operators.lookup.join import Fate
from endmark.operators.lookup.strategies import Name

Key = tuple[Any, ...]

_DUCKDB = duckdb.connect()  # opening one takes longer than most histories

# Few keys, so that they repeat; some are only in R, some only in the stream, some beyond either end of R.
_DOMAINS: dict[str, list[list[Any]]] = {
    "long": [list(range(-3, 12))],
    "string": [["", "a", "A", "a ", "ab", "b", "é", "z" * 20, "z" * 21]],
    "decimal_and_date": [["0.10", "-0.10", "7.00"], ["2026-01-01", "2026-01-02", "1969-12-31"]],
    "long_and_string": [[-1, 0, 1], ["", "x", "y"]],
}
_TYPES: dict[str, list[pa.DataType]] = {
    "long": [pa.int64()],
    "string": [pa.string()],
    "decimal_and_date": [pa.decimal128(10, 2), pa.date32()],
    "long_and_string": [pa.int64(), pa.string()],
}


class Arrive(NamedTuple):
    """A batch of rows with these keys; none, when a timer runs an empty batch."""

    keys: list[Key]
    drain: bool


class Restart(NamedTuple):
    """The operator goes on from its snapshot; so does the cache, unless it is lost."""

    lose_cache: bool


class Evict(NamedTuple):
    """A punctuation closes a key."""

    key: Key


Move = Arrive | Restart | Evict


class History(NamedTuple):
    """What happens, and how the operator is set up.

    `small` is for the internal sizes: pages and lists at once, keys of a list.
    """

    kind: str
    master: list[Key]
    moves: list[Move]
    strategy: Name
    page_rows: int
    small: int
    reads: int | None
    capacity: int | None
    fate: Fate
    attempts: int
    cache: int | None
    costs: ReadCosts

    def relation(self) -> pa.RecordBatch:
        """R: its key, then `v`, which tells rows apart."""
        values = pa.array([f"v{at}" for at in range(len(self.master))])
        return pa.record_batch([*self.columns(self.master), values], names=[*self.names("r"), "v"])

    def stream(self, keys: list[Key], first: int) -> pa.RecordBatch:
        """Rows `n`, numbered from `first`, with these keys."""
        numbers = pa.array(range(first, first + len(keys)), pa.int64())
        return pa.record_batch([numbers, *self.columns(keys)], names=["n", *self.names("s")])

    def names(self, prefix: str) -> list[str]:
        return [f"{prefix}_{number}" for number in range(len(_TYPES[self.kind]))]

    def columns(self, keys: list[Key]) -> list[pa.Array]:
        columns = list(zip(*keys, strict=True)) or [() for _ in _TYPES[self.kind]]
        texts = [[None if value is None else str(value) for value in column] for column in columns]
        return [
            pa.array(text, pa.string()).cast(kind)
            for text, kind in zip(texts, _TYPES[self.kind], strict=True)
        ]

    def definition(self, stream: pa.RecordBatch) -> list[tuple[int, str | None]]:
        """`n` beside `v` of every match, or beside null, by DuckDB."""
        on = " AND ".join(f"{s} = {r}" for s, r in zip(self.names("s"), self.names("r"), strict=True))
        _DUCKDB.register("stream", pa.Table.from_batches([stream]))
        _DUCKDB.register("relation", pa.Table.from_batches([self.relation()]))
        return _DUCKDB.sql(f"SELECT n, v FROM stream LEFT JOIN relation ON {on}").fetchall()  # noqa: S608


_SECONDS = st.sampled_from([1e-9, 1e-5, 1e-2, 10.0])


@st.composite
def histories(draw: st.DrawFn, strategy: Name) -> History:
    kind = draw(st.sampled_from(sorted(_DOMAINS)))
    key = st.tuples(*(st.sampled_from(values) for values in _DOMAINS[kind]))
    # A row of the stream may have a null in its key.
    asked = st.tuples(*(st.sampled_from([*values, *values, None]) for values in _DOMAINS[kind]))
    arrivals = st.builds(
        Arrive,
        st.one_of(st.just([]), *3 * [st.lists(asked, min_size=3, max_size=14)]),
        st.sampled_from([False, False, False, True]),
    )
    others = st.one_of(st.builds(Restart, st.booleans()), st.builds(Evict, key))
    return History(
        kind=kind,
        master=draw(st.one_of(st.lists(key, max_size=3), st.lists(key, min_size=8, max_size=20))),
        moves=draw(st.lists(st.one_of(arrivals, arrivals, others), min_size=3, max_size=8)),
        strategy=strategy,
        page_rows=draw(st.integers(1, 6)),
        small=draw(st.integers(1, 3)),
        reads=draw(st.sampled_from([None, 0, 1, 1, 2, 3])),
        capacity=draw(st.sampled_from([None, None, 1, 100, 400])),
        fate=draw(st.sampled_from(["drop", "nulls", "dead_letter"])),
        attempts=draw(st.sampled_from([1, 1, 2, 3])),
        cache=draw(st.sampled_from([None, 0, 150, 5000, 5000])),
        costs=draw(st.builds(ReadCosts, *5 * [_SECONDS])),
    )
