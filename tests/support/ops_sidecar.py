"""The sidecar as a child process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

STOP_SECONDS = 90.0  # as a job has; how soon a sidecar ends is a test of its own

SERVE = """
import json, sys
from endmark_ops.http.access import parse_tokens
from endmark_ops.reach import Reach
from endmark_ops.server import serve
url, port, given = sys.argv[1:]
given = json.loads(given)
tokens = parse_tokens(given.get("tokens", ""), "here")
reach = Reach(tokens, given.get("bootstrap"), given.get("warehouse"))
ready = lambda url: print(url, flush=True)
serve(url, int(port), stale_seconds=60, reach=reach, on_ready=ready)
"""


@dataclass
class Sidecar:
    """The sidecar as a child process; `url` ends with a slash. `reach` may have tokens, bootstrap and
    warehouse. It logs to `log`, or to where this process does."""

    ops_url: str
    port: int = 0
    url: str = ""
    reach: dict[str, str] = field(default_factory=dict)
    log: Path | None = None

    def start(self) -> None:
        command = [sys.executable, "-c", SERVE, self.ops_url, str(self.port)]
        command.append(json.dumps(self.reach))
        with self.log.open("wb") if self.log is not None else nullcontext() as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        assert self.url, "the sidecar did not start"
        self.port = int(self.url.rstrip("/").rpartition(":")[2])

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def cpu_seconds(self) -> float:
        """Return the seconds of CPU that the process has used since it began; this reads Linux' /proc."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=STOP_SECONDS)
