"""The origin of a result file: the commit, the machine and the versions that its figures are of."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from endmark.embedded.java import require_java

_PACKAGES = ("pyspark", "pyarrow", "numpy", "duckdb", "sqlalchemy", "pymysql")


def origin() -> dict[str, Any]:
    """Return the origin of a report. Its load is the one before the first run."""
    return {
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
        "machine": {
            "cores": os.cpu_count(),
            "processor": _processor(),
            "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
            "load": round(os.getloadavg()[0], 1),
        },
        "versions": {
            "python": platform.python_version(),
            "java": _java(),
            **{name: version(name) for name in _PACKAGES},
        },
    }


def commit() -> str:
    """Return the commit of this source tree, with a `+` if files differ from it; "none" outside of one."""
    here = Path(__file__).parent
    head = _git(here, "rev-parse", "--short=12", "HEAD")
    if head is None:
        return "none"
    return head + ("+" if _git(here, "status", "--porcelain", "--", here.parents[2]) else "")


def _git(directory: Path, *arguments: str | Path) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=directory, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    found = (
        re.search(r"^model name\s*: (.*)$", cpuinfo.read_text(), re.MULTILINE) if cpuinfo.exists() else None
    )
    return found[1] if found else platform.machine()


def _java() -> str:
    said = subprocess.run([require_java(), "-version"], capture_output=True, text=True, check=True).stderr
    found = re.search(r'version "([^"]+)"', said)
    return found[1] if found else said.splitlines()[0]
