"""The sidecar as a child process."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

SERVE = """
import sys
from endmark_ops.server import serve
url, pipeline, port = sys.argv[1:]
serve(url, pipeline, int(port), stale_seconds=60, on_ready=lambda url: print(url, flush=True))
"""


@dataclass
class Sidecar:
    """The sidecar as a child process; `url` ends with a slash."""

    ops_url: str
    pipeline: str
    port: int = 0
    url: str = ""

    def start(self) -> None:
        command = [sys.executable, "-c", SERVE, self.ops_url, self.pipeline, str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        assert self.url, "the sidecar did not start"
        self.port = int(self.url.rstrip("/").rpartition(":")[2])

    def stop(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=10)
