"""A run keeps the number of buckets of its checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from endmark.cli.run import run
from endmark.driver.checkpoint import claimed, pin
from endmark.driver.settings import settings
from endmark.errors import ConfigError
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION


@pytest.mark.parametrize(("asked", "expected"), [(None, 4), (8, 8)])
def test_a_run_has_the_buckets_of_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: int | None, expected: int
) -> None:
    """A job whose state was split would otherwise be refused by each later start without `--buckets`."""
    monkeypatch.setenv("ENDMARK_RELATION_URL", "sqlite:///r.db")
    with claimed(tmp_path):
        pin(tmp_path, settings(load(AUCTION), 4), tmp_path)
    started: list[int] = []

    def starting(*args: object, buckets: int, **more: object) -> None:
        started.append(buckets)
        raise ConfigError("no session is needed")

    monkeypatch.setattr("endmark.spark.session_start.session_starting", starting)
    monkeypatch.setattr("endmark.spark.processes.class_archive.local_jars", lambda say: [])
    with pytest.raises(ConfigError, match="no session is needed"):
        run(AUCTION, checkpoint=str(tmp_path), buckets=asked)

    assert started == [expected]
