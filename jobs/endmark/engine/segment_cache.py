"""Local copies of segments: one private directory for all Python workers of an executor.

The daemon makes it before it forks workers. The driver has no part in it, since on a cluster workers run on
other machines. Segments have names of their own, so several queries can share the directory.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from endmark.private import private_directory

if TYPE_CHECKING:
    from pathlib import Path

PREFIX = "endmark-segments-"


@cache
def cache_directory() -> Path:
    """Return the directory for local copies of segments of this process and those that it forks.

    A worker of another daemon than ours makes a directory for itself and exits without removing it. The next
    one removes it.
    """
    return private_directory(PREFIX)
