"""When the buckets of a checkpoint must not be split yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from endmark.driver.checkpoint import claimed, pin, rescaled, settings
from endmark.errors import ConfigError
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION
from endmark.spark.rescale import rescale

SPEC = load(AUCTION, {"ENDMARK_RELATION_URL": "sqlite://"})
NO_SESSION: Any = None  # each of these is refused before Spark is asked


def test_buckets_without_a_batch_are_not_split_again(tmp_path: Path) -> None:
    """The state of four buckets is not there before a batch has run, so there is nothing to copy."""
    with claimed(tmp_path):
        pin(tmp_path, settings(SPEC, 2), tmp_path)
        commits = tmp_path / "spark" / "commits"
        commits.mkdir(parents=True)
        (commits / "0").touch()
        rescaled(tmp_path, 2, 4)

        said = r"has 4 buckets and cannot have 8 yet: no batch has run since there were 2; run .* --buckets 4"
        with pytest.raises(ConfigError, match=said):
            rescale(NO_SESSION, tmp_path, 4, 8, print)


def test_a_checkpoint_without_a_batch_has_no_state_to_split(tmp_path: Path) -> None:
    with claimed(tmp_path):
        pin(tmp_path, settings(SPEC, 2), tmp_path)

        rescale(NO_SESSION, tmp_path, 2, 6, print)

        pin(tmp_path, settings(SPEC, 6), tmp_path)
