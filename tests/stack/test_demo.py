"""The newcomer's path: one command, the whole warehouse, on MariaDB."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

DEADLINE_SECONDS = 500


def test_demo_on_mysql(tmp_path: Path) -> None:
    """The demo ends with everything equal and conserved, and its dashboard answers while it runs."""
    arguments = ["--minutes=0.4", "--rate=3000", "--seed=11", "--lookup=mysql", f"--directory={tmp_path}"]
    command = [sys.executable, "-m", "endmark.cli", "demo", "--json", *arguments]
    with (tmp_path / "stderr").open("w+") as said:
        demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True)
        try:
            url = _dashboard_url(Path(said.name), demo)
            assert "<title>" in _get(url)
            assert "endmark_run_up" in _get(f"{url}metrics")
            output, _ = demo.communicate(timeout=DEADLINE_SECONDS)
        finally:
            demo.kill()

    assert demo.returncode == 0, output + Path(said.name).read_text()
    report = json.loads(output[output.index("{") :])
    assert report["ok"]
    actual = {table["table"]: table["actual"] for table in report["tables"]}
    assert actual["results"] > 40_000
    assert actual["groups"] > 1_000
    assert actual["dead_letters"] > 0
    assert actual["violations"] > 0


def _dashboard_url(said: Path, demo: subprocess.Popen[str]) -> str:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        # Rich wraps lines to the width of the terminal, so the address may stand on a line of its own.
        if found := re.search(r"dashboard:\s+(http://127\.0\.0\.1:\d+/)", said.read_text()):
            return found[1]
        assert demo.poll() is None, said.read_text()
        time.sleep(0.2)
    raise AssertionError(f"no dashboard after {DEADLINE_SECONDS} s: {said.read_text()}")


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310  # a loopback address of ours
        text: str = answer.read().decode()
    return text
