"""Spark's daemon of Python workers. It imports their modules before it forks them.

A worker took 1.5 s of a core for its imports, and the first batch of a job starts four.
"""

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_ARCHIVE = "/pyspark/python/lib/pyspark.zip"


def leave_archive() -> None:
    """Import pyspark from where pip has installed it, if it has.

    Spark puts its archive first, which holds sources: every daemon compiled them, for 0.7 s of a core.
    """
    archives = [entry for entry in sys.path if entry.endswith(_ARCHIVE)]
    for entry in archives:
        if str(Path(entry).parents[3]) in sys.path:
            sys.path.remove(entry)


def silent_when_left(work: Callable[..., int]) -> Callable[..., int]:
    """Suppress what Python says of a JVM that hung up: nobody is left to read it, and nothing is wrong."""

    def worked(*arguments: Any) -> int:
        try:
            return work(*arguments)
        except (BrokenPipeError, ConnectionResetError):
            return 1

    return worked


def serve() -> None:
    """Import, and fork workers for as long as Spark asks for them."""
    import pandas  # noqa: F401
    import pyspark.daemon
    import pyspark.sql.pandas.serializers
    import pyspark.sql.streaming.stateful_processor_util
    import pyspark.worker

    from endmark.engine.segment_cache import cache_directory
    from endmark.private import keep_private

    # On a cluster, the mask of the driver's process is not that of this one. All workers share the directory.
    keep_private()
    cache_directory()
    # A worker collects garbage behind each task, which takes 60 ms of a core while it looks at all of these
    # modules, too. They are none of it.
    gc.freeze()
    pyspark.daemon.worker = silent_when_left(pyspark.daemon.worker)
    pyspark.daemon.manager()


if __name__ == "__main__":
    leave_archive()
    serve()
