"""Buckets of a checkpoint that has no state yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from endmark.driver.checkpoint import claimed, pin
from endmark.driver.settings import settings
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION
from endmark.spark.rescale import rescale

SPEC = load(AUCTION, {"ENDMARK_RELATION_URL": "sqlite://"})
NO_SESSION: Any = None


def test_a_checkpoint_without_a_batch_has_no_state_to_split(tmp_path: Path) -> None:
    with claimed(tmp_path):
        pin(tmp_path, settings(SPEC, 2), tmp_path)

        rescale(NO_SESSION, tmp_path, 2, 6, print)

        pin(tmp_path, settings(SPEC, 6), tmp_path)
