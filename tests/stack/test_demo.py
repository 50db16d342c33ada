"""The newcomer's path: one command, the whole warehouse, on SQLite and on MariaDB."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

import pytest

from support.demo import DEADLINE_SECONDS, running_demo


@pytest.mark.parametrize("lookup", ["sqlite", "mysql"])
def test_demo(tmp_path: Path, lookup: str) -> None:
    """The demo ends with everything equal and conserved, and its dashboard answers while it runs.

    HYBRIDJOIN has read pages, and bids have waited for theirs.
    """
    arguments = ["--minutes=0.25", "--rate=4000", "--seed=11", f"--lookup={lookup}"]
    with running_demo(tmp_path, *arguments) as demo:
        url = demo.dashboard()
        assert "<title>" in _get(url)
        assert "endmark_run_up" in _get(f"{url}metrics")
        output, _ = demo.process.communicate(timeout=DEADLINE_SECONDS)

    assert demo.process.returncode == 0, output + demo.said
    report = json.loads(output[output.index("{") :])
    assert report["ok"]
    actual = {table["table"]: table["actual"] for table in report["tables"]}
    assert actual["results"] > 35_000
    assert actual["groups"] > 1_000
    assert actual["dead_letters"] > 0
    assert actual["violations"] > 0
    pages, lists, waiting = _looked_up(demo.said)
    assert pages > 500
    assert lists == 0
    assert waiting > 0


def _looked_up(said: str) -> list[int]:
    """The summary's figures of the lookup. Rich wraps its lines to the width of the terminal."""
    found = re.search(
        r"lookup in sellers, strategy hybrid: ([\d,]+) pages and ([\d,]+) lists of keys read, "
        r"at most ([\d,]+) rows waiting",
        " ".join(said.split()),
    )
    assert found is not None, said
    return [int(figure.replace(",", "")) for figure in found.groups()]


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310  # a loopback address of ours
        text: str = answer.read().decode()
    return text
