"""A demo as a child process, and its dashboard."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

DEADLINE_SECONDS = 500


@dataclass(frozen=True)
class Demo:
    """A running demo.

    Args:
        process: its process, whose output is a report in JSON.
        log: what it says besides.
    """

    process: subprocess.Popen[str]
    log: Path

    @property
    def said(self) -> str:
        return self.log.read_text()

    def dashboard(self) -> str:
        """Return the dashboard's address once the demo has said it."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline:
            # Rich wraps lines to the width of the terminal, so the address may stand on a line of its own.
            if found := re.search(r"dashboard:\s+(http://127\.0\.0\.1:\d+/)", self.said):
                return found[1]
            assert self.process.poll() is None, self.said
            time.sleep(0.2)
        raise AssertionError(f"no dashboard after {DEADLINE_SECONDS} s: {self.said}")


@contextmanager
def running_demo(directory: Path, *arguments: str) -> Iterator[Demo]:
    """Run a demo in a directory; it is killed in the end, if it still runs."""
    command = [sys.executable, "-m", "endmark.cli", "demo", "--json", f"--directory={directory}", *arguments]
    log = directory / "stderr"
    with log.open("w") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        try:
            yield Demo(process, log)
        finally:
            process.kill()
            process.wait()
