"""Our version of Spark's daemon for Python workers. It imports their modules before it forks them."""

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_ARCHIVE = "/pyspark/python/lib/pyspark.zip"


def leave_archive() -> None:
    """Remove Spark's archive from the import path if pip has installed pyspark beside it.

    Spark puts the archive first. It holds sources, so every daemon compiled them, for 0.7 s of a core.
    """
    archives = [entry for entry in sys.path if entry.endswith(_ARCHIVE)]
    for entry in archives:
        if str(Path(entry).parents[3]) in sys.path:
            sys.path.remove(entry)


def silent_when_left(work: Callable[..., int]) -> Callable[..., int]:
    """Suppress the errors of a worker whose JVM has closed the connection; that happens at every stop."""

    def worked(*arguments: Any) -> int:
        try:
            return work(*arguments)
        except (BrokenPipeError, ConnectionResetError):
            return 1

    return worked


def frozen_after_first(work: Callable[..., int]) -> Callable[..., int]:
    """Keep what is there after a worker's first task out of all later garbage collections.

    A worker collects garbage after each task, and a batch has a dozen tasks. A look at the modules and caches
    that came with the first task took 30 ms of a core.
    """
    is_first = True

    def worked(*arguments: Any) -> int:
        nonlocal is_first
        code = work(*arguments)
        if is_first:
            gc.collect()
            gc.freeze()
            is_first = False
        return code

    return worked


def serve() -> None:
    """Import the modules of workers, unless this process has, then fork workers for as long as Spark asks."""
    import pyspark.daemon

    from endmark.engine.segment_cache import cache_directory
    from endmark.private import keep_private
    from endmark.schemas.registry import shared_directory
    from endmark.spark.processes.worker_modules import import_modules

    import_modules()

    # On a cluster, this process does not inherit the driver's umask.
    keep_private()
    cache_directory()  # both are made here once, since all workers share them
    shared_directory()
    # A worker collects garbage after each task. That takes 60 ms of a core if it also looks at these modules.
    gc.freeze()
    pyspark.daemon.worker = frozen_after_first(silent_when_left(pyspark.daemon.worker))
    pyspark.daemon.manager()


if __name__ == "__main__":
    leave_archive()
    serve()
