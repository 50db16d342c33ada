"""All types are right. It is a test, so that the other ones run beside it: it takes 48 s on one core."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_all_types_are_right() -> None:
    command = [sys.executable, "-m", "mypy"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
