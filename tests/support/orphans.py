"""Parts whose parent process is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from endmark.embedded.ports import listens


def orphaned(module: str, part: str, directory: Path, port: int) -> None:
    """Start the part of that class below a directory, on a port, in a process of its own, and kill that."""
    script = (
        f"import sys, time; from pathlib import Path; from {module} import {part}\n"
        f"part = {part}(Path(sys.argv[1]), int(sys.argv[2])); part.start()\n"
        "print('up', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", script, str(directory), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up\n"
        assert listens(port)
        parent.send_signal(signal.SIGKILL)
