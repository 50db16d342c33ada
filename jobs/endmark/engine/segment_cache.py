"""Local copies of segments: one private directory for all Python workers of an executor.

Spark's Python daemon makes the directory before it forks workers. The driver cannot make it, since workers of
a cluster run on other machines. Segments have unique names, so several queries can share the directory.
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
    """Return the directory for local copies of segments, which this process shares with those that it forks.

    If another daemon than ours forks a worker, the worker makes a directory of its own and exits without
    removing it. The next process that makes such a directory removes it.
    """
    return private_directory(PREFIX)
