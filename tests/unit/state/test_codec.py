"""Rows as Arrow bytes."""

from __future__ import annotations

import mmap

import pyarrow as pa
import pytest

from endmark.state.codec import OverfullError, concat


def test_more_text_than_a_column_can_hold_is_refused_with_what_to_do() -> None:
    size = (1 << 30) + 1
    # Nothing writes to the pages of this map, so they take no memory.
    text = pa.py_buffer(mmap.mmap(-1, size))
    offsets = pa.array([0, size], pa.int32()).buffers()[1]
    batch = pa.record_batch({"text": pa.Array.from_buffers(pa.string(), 1, [None, offsets, text])})
    with pytest.raises(OverfullError, match=r"2 GiB of text .* `endmark migrate FILE --set batch.records=N"):
        concat([batch, batch])
