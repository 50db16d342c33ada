"""Local copies of segments: whose they are, and who tidies up."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from endmark.spark.cache import cache_directory, cache_name, remove_orphaned_caches


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_orphans_go_and_others_stay(temporary: Path) -> None:
    """A killed run's directory is removed; a living run's and a stranger's are not."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    own = cache_directory(cache_name("run"))
    orphan = temporary / own.name.replace(str(os.getpid()), str(ended.pid))
    strangers = {temporary / own.name.replace(str(os.getpid()), name) for name in ("test", "9" * 19)}
    for directory in (own, orphan, *strangers):
        (directory / "bucket").mkdir(parents=True)

    remove_orphaned_caches()

    assert set(temporary.iterdir()) == {own, *strangers}
