"""Local copies of segments: one directory per run, below the machine's temporary one."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "endmark-segments-"


def cache_name(run_id: str) -> str:
    """The name names its driver's process, so that a later run knows whose it was."""
    return f"{_PREFIX}{os.getpid()}-{run_id}"


def cache_directory(name: str) -> Path:
    return Path(tempfile.gettempdir()) / name


def remove_orphaned_caches() -> None:
    """Remove what killed runs on this machine left behind."""
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = directory.name.removeprefix(_PREFIX).split("-")[0]
        if not (owner.isascii() and owner.isdecimal()):
            continue  # anybody may put a directory there, and must not stop us by that
        try:
            os.kill(int(owner), 0)
        except ProcessLookupError:
            shutil.rmtree(directory, ignore_errors=True)
        except (PermissionError, OverflowError):
            pass  # alive, and somebody else's; or the number of no process
