"""Rows in several batches are as those of one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from endmark.operators.lookup.waiting_rows import SERIAL, Piece, Pieces, Waiting
from endmark.relation.contract import PageDirectory
from endmark.state.keys import KeySpec


@st.composite
def pieces(draw: st.DrawFn) -> list[Piece]:
    found, number = [], 0
    for rows in draw(st.lists(st.integers(0, 5), min_size=1, max_size=5)):
        numbers = list(range(number, number + rows))
        number += rows
        batch = pa.record_batch(
            {"n": pa.array(numbers, pa.int64()), "text": pa.array(map(str, numbers), pa.string())}
        )
        some = draw(st.none() | st.sets(st.integers(0, rows - 1) if rows else st.nothing()))
        found.append(Piece(batch, None if some is None else np.array(sorted(some), np.int64)))
    return found


@given(pieces(), st.data())
def test_rows_are_taken_from_wherever_they_lie(of: list[Piece], data: st.DataObject) -> None:
    together = pa.concat_batches([piece.select(["n", "text"]) for piece in of])
    at = np.array(data.draw(st.lists(st.integers(0, max(0, len(together) - 1)))), np.int64)
    at = at if len(together) else np.empty(0, np.int64)

    rows = Pieces(of)

    assert rows.num_rows == len(together)
    assert rows.select(["text"]) == together.select(["text"])
    assert rows.take(at) == together.take(pa.array(at))


def test_a_row_has_the_bytes_of_the_live_ones() -> None:
    batch = pa.record_batch({"n": pa.array(range(100), pa.int64())})

    assert Pieces([Piece(batch, np.arange(10)), Piece(batch)]).row_bytes == 8
    assert Pieces([Piece(batch, np.arange(0))]).row_bytes == 0


@given(
    rows=st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1),
    data=st.data(),
    hashed=st.booleans(),
)
def test_rows_left_of_the_last_piece_are_in_order_of_code(
    rows: list[tuple[int, bool]], data: st.DataObject, *, hashed: bool
) -> None:
    """As if they were sorted by themselves, equal keys in the order in which they came."""
    keys = pa.array([key for key, _ in rows], pa.int64()).cast(pa.string() if hashed else pa.int64())
    key = KeySpec.of(["k"], [keys.type])
    given_rows = key.coded(pa.record_batch({"k": keys, SERIAL: pa.array(range(len(rows)), pa.int64())}))
    first = data.draw(st.integers(0, len(rows)))
    bounds = pa.array(["3", "6"]) if hashed else pa.array([3, 6])
    waiting = Waiting(
        [Piece(given_rows.slice(0, first)), Piece(given_rows.slice(first))],
        key,
        PageDirectory(pa.record_batch({"k": bounds})),
    )
    positions = dict(
        zip(waiting.take(np.arange(len(rows)))[SERIAL].to_pylist(), range(len(rows)), strict=True)
    )
    answered = [positions[serial] for serial, (_, is_answered) in enumerate(rows) if is_answered]
    waiting.answer(np.array(sorted(answered), np.int64))

    earlier, of_last = waiting.left()

    waits = np.array([not is_answered for _, is_answered in rows])
    assert earlier.tolist() == waits[:first].tolist()
    last = given_rows.slice(first)
    assert last.take(pa.array(of_last)) == key.sorted(last.filter(pa.array(waits[first:])))
