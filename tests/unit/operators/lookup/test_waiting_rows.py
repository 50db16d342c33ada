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
    at = np.array(sorted(data.draw(st.lists(st.integers(0, max(0, len(together) - 1))))), np.int64)
    at = at if len(together) else np.empty(0, np.int64)

    rows = Pieces(of)

    assert rows.num_rows == len(together)
    assert rows.take(at) == together.take(pa.array(at))


def test_a_row_has_the_bytes_of_the_live_ones() -> None:
    batch = pa.record_batch({"n": pa.array(range(100), pa.int64())})

    assert Pieces([Piece(batch, np.arange(10)), Piece(batch)]).row_bytes == 8
    assert Pieces([Piece(batch, np.arange(0))]).row_bytes == 0


@st.composite
def coded_pieces(draw: st.DrawFn) -> tuple[KeySpec, list[pa.RecordBatch]]:
    """Batches of rows with a key and a serial number, of which all but the last are sorted by code."""
    kind = draw(st.sampled_from([pa.int64(), pa.string()]))
    key, found, serial = KeySpec.of(["k"], [kind]), [], 0
    for keys in draw(st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=4)):
        serials = pa.array(range(serial, serial + len(keys)), pa.int64())
        rows = pa.record_batch({"k": pa.array(keys, pa.int64()).cast(kind), SERIAL: serials})
        found.append(key.coded(rows))
        serial += len(keys)
    return key, [*map(key.sorted, found[:-1]), found[-1]]


def serials_of(rows: pa.RecordBatch) -> list[int]:
    found: list[int] = rows[SERIAL].to_pylist()
    return found


@given(given_rows=coded_pieces(), data=st.data())
def test_rows_of_several_pieces_are_grouped_by_page_and_by_key(
    given_rows: tuple[KeySpec, list[pa.RecordBatch]], data: st.DataObject
) -> None:
    """Pages and keys have the rows of all pieces; what was answered does not wait, and the rest is left."""
    key, batches = given_rows
    bounds = pa.array([0, 3, 6]).cast(batches[0]["k"].type)
    page_of = {str(number): min(number // 3, 2) for number in range(10)}
    waiting = Waiting([Piece(one) for one in batches], key, PageDirectory(pa.record_batch({"k": bounds})))
    left = {
        serial: str(k)
        for one in batches
        for k, serial in zip(one["k"].to_pylist(), serials_of(one), strict=True)
    }

    def on(page: int) -> list[int]:
        return [serial for serial, k in left.items() if page_of[k] == page]

    numbers = sorted({page_of[k] for k in left.values()})
    assert waiting.page_numbers.tolist() == numbers
    assert waiting.pages.oldest.tolist() == [min(on(page)) for page in numbers]
    assert waiting.keys_on_page.tolist() == [len({left[serial] for serial in on(page)}) for page in numbers]

    page = data.draw(st.integers(0, 2))
    rows = waiting.on_pages(np.array([page]))
    assert sorted(serials_of(waiting.take(rows))) == sorted(on(page))
    waiting.answer(rows)
    left = {serial: k for serial, k in left.items() if page_of[k] != page}
    groups = waiting.keys.first(1)
    rows = waiting.of_keys(groups)
    oldest = left.get(min(left, default=-1))
    assert sorted(serials_of(waiting.take(rows))) == [n for n in sorted(left) if left[n] == oldest]
    waiting.answer(rows)
    left = {serial: k for serial, k in left.items() if k != oldest}

    assert len(waiting) == len(left)
    assert waiting.pages.waiting.tolist() == [len(on(page)) for page in numbers]
    earlier, of_last = waiting.left()
    assert earlier.tolist() == [serial in left for one in batches[:-1] for serial in serials_of(one)]
    kept = batches[-1].filter(pa.array([serial in left for serial in serials_of(batches[-1])], pa.bool_()))
    assert batches[-1].take(pa.array(of_last)) == key.sorted(kept)
