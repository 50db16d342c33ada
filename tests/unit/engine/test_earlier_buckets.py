"""Buckets that are made of fewer ones."""

from __future__ import annotations

from pathlib import Path

from endmark.engine.channels import Buckets
from endmark.engine.earlier_buckets import EarlierBuckets, EarlierState, StageBuckets
from endmark.state.keys import Share


def test_a_copied_state_has_the_blobs_that_were_written(tmp_path: Path) -> None:
    state = EarlierState(tmp_path / "0-1")
    blobs = [("snapshot", b"of all"), ("0a", bytes(range(256)) * 1_000), ("0b", b"")]

    size = state.write(blobs)

    assert list(state.blobs()) == blobs
    assert size == sum(file.stat().st_size for file in (tmp_path / "0-1").iterdir())


def test_each_bucket_takes_over_the_state_of_the_one_that_had_its_keys(tmp_path: Path) -> None:
    earlier = EarlierBuckets(tmp_path, 2)
    stage = StageBuckets(1, Buckets((5, 9, 3, 7)), earlier)

    for number, label in enumerate((5, 9, 3, 7)):
        found = stage.taken_over(label)
        assert found.share == Share(number, 4)
        assert found.state == EarlierState(tmp_path / f"1-{number % 2}")
    assert StageBuckets(1, Buckets((5, 9))).taken_over(9).state is None
