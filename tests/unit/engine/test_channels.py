"""Packed rows: how pieces of results are joined to blobs."""

from __future__ import annotations

import pyarrow as pa
import pytest

from endmark.engine import channels


def piece(*notes: str) -> pa.RecordBatch:
    return pa.record_batch({"note": pa.array(notes, pa.string())})


def test_blobs_are_bounded_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were bounded by rows alone, and Arrow refuses to join pieces to a column with 2 GiB of text."""
    monkeypatch.setattr(channels, "BYTES_AT_ONCE", 100)
    pieces = [piece("a"), piece("b"), piece("c" * 60), piece("d" * 60), piece("e" * 200), piece("f")]

    found = [blob.column("note").to_pylist() for blob in channels.gathered(iter(pieces), 3)]

    assert found == [["a", "b", "c" * 60], ["d" * 60], ["e" * 200], ["f"]]
