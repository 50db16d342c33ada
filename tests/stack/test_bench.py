"""`endmark bench lookup-join`, small: what it reports, and that wrong answers end it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def lookup_join(recordings: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    small = ["--stream-rows=2000", "--relation-rows=5000", "--batch-rows=500", "--repeats=1", "--json"]
    return subprocess.run(
        [sys.executable, "-m", "endmark.cli", "bench", "lookup-join", *small, *arguments],
        cwd=recordings,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="module")
def reported(recordings: Path) -> dict[str, Any]:
    ended = lookup_join(recordings, "--contender=spark-in-list", "--delay=1")
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads(ended.stdout))


def test_contenders_are_compared_in_every_cell(reported: dict[str, Any]) -> None:
    """Both gave DuckDB's answers, or there would be no report."""
    assert [cell["keys"] for cell in reported["cells"]] == ["uniform", "zipf"]
    for cell in reported["cells"]:
        found = cell["contenders"]
        assert list(found) == ["endmark-auto", "spark-in-list"]
        assert all(len(each["runs"]) == 1 and each["median"] > 0 for each in found.values())
        assert found["spark-in-list"]["ratio"] == pytest.approx(
            found["endmark-auto"]["median"] / found["spark-in-list"]["median"], abs=0.01
        )


def test_other_answers_than_duckdbs_end_it(reported: dict[str, Any], recordings: Path) -> None:
    """As of input that was recorded before, one digest of which is changed."""
    [digests] = recordings.glob("var/bench/*/digests.json")
    recorded = json.loads(digests.read_text())
    recorded["uniform"][0][1] += 1
    digests.write_text(json.dumps(recorded))

    ended = lookup_join(recordings, "--contender=endmark-auto")

    assert ended.returncode == 1
    error = json.loads(ended.stdout)["error"]
    assert error.startswith("endmark-auto gave 2,000 answers to uniform keys")
    assert error.endswith("there is nothing to compare")
