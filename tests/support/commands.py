"""The command line, as a child process."""

from __future__ import annotations

import os
import subprocess
import sys


def endmark(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "endmark.cli", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def assert_one_line(ended: subprocess.CompletedProcess[str], *parts: str, code: int = 2) -> None:
    """Assert that a command ended with a code and one line of error that holds all of `parts`."""
    assert ended.returncode == code, ended.stderr
    [line] = [line for line in ended.stderr.splitlines() if line.startswith("endmark: ")]
    for part in parts:
        assert part in line
    assert "Traceback" not in ended.stderr
