"""The start of each Python process that Spark's JVM starts. Such a process is silent when its JVM has gone.

A signal to all processes of a job ends the JVM, too. Spark's processes that plan the offsets of batches live
as long as their query, and each would print the traceback of a broken connection.
"""

from __future__ import annotations

import os
import runpy
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

# Spark's module prints four lines for each stage of a job to the console of `endmark run`. It talks to the
# JVM through a socket, so its standard output has nothing else.
_TALKS = "pyspark.sql.streaming.transform_with_state_driver_worker"


def report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an uncaught error, unless the JVM has closed its connection or does not accept one."""
    if not _is_broken_connection(error):
        sys.__excepthook__(kind, error, trace)


def _is_broken_connection(error: BaseException) -> bool:
    # Spark reports a connection that it cannot open by an error of its own, which has this condition.
    is_unopened = str(error).startswith("[CANNOT_OPEN_SOCKET]")
    return is_unopened or isinstance(error, BrokenPipeError | ConnectionResetError | EOFError)


def _serve_workers() -> None:
    """Run Spark's daemon, whose workers print each error by themselves, with workers that are silent, too."""
    import pyspark.daemon

    from endmark.spark.processes.daemon import silent_when_left

    pyspark.daemon.worker = silent_when_left(pyspark.daemon.worker)
    pyspark.daemon.manager()


if __name__ == "__main__":
    sys.excepthook = report
    del sys.argv[0]
    if sys.argv[0] == "pyspark.daemon":
        _serve_workers()
        sys.exit()
    sys.modules.pop(sys.argv[0], None)  # a forked process has imported some, and Python would warn of it
    with (
        Path(os.devnull).open("w") as nowhere,
        redirect_stdout(nowhere) if sys.argv[0] == _TALKS else nullcontext(),
    ):
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
