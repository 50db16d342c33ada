"""Forks the Python processes that Spark's JVM starts, from one process that has imported their modules.

A query starts six of them, one after the other: for its source, its state, its tasks, and the offsets of
its batches. Each took 0.3 to 1.3 s to start Python and import Spark's modules. A job had its first output
after 12.8 s, in which 1.4 of two cores worked. Now the modules are imported once, while Java starts.

The JVM starts `prefork_request.py` in place of such a process. That program sends its arguments, its
environment and its standard streams through a Unix socket in a private directory.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from endmark.private import private_directory
from endmark.spark.processes.worker_modules import import_modules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOCKET = "ENDMARK_PREFORK"
"""The environment variable with the path of the socket."""
_STREAMS = 3
# Spark sets these for workers. They must be there before Python starts: equal texts have equal hashes in all
# workers, and NumPy starts no threads, of which a forked process has none.
_FOR_IMPORTS = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
_INTERRUPT = {signal.SIGINT}
_LONGEST = 1 << 20  # bytes that are received at once
# Modules that the JVM runs.
_RUN = (
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.streaming.transform_with_state_driver_worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
)


@contextmanager
def preforking() -> Iterator[Callable[[], None]]:
    """Fork the Python processes of a JVM that is started while the body of a `with` runs.

    Yields:
        a function that starts the server, once. Until then, the JVM starts such processes itself.
    """
    path = private_directory("endmark-prefork-") / "socket"
    with ExitStack() as started:

        @cache
        def start() -> None:
            # The server ends with this process, which holds the other end of its standard input.
            command = [sys.executable, "-m", __name__, str(path)]
            environment = os.environ | _FOR_IMPORTS
            # The server inherits the mask, and ignores the signal before it unblocks it: a Ctrl-C during its
            # imports ended it with a traceback.
            signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPT)
            try:
                server = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPT)
            started.callback(server.communicate)

        os.environ[SOCKET] = str(path)
        try:
            yield start
        finally:
            del os.environ[SOCKET]


def serve(path: Path) -> None:
    """Import modules, and then fork a process for each request, until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the driver
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPT)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no child stays a zombie
    with socket.socket(socket.AF_UNIX) as listener:
        # A request that comes before the modules are imported waits here.
        listener.bind(str(path))
        listener.listen()
        _import()
        gc.freeze()
        while sys.stdin not in select.select([sys.stdin, listener], [], [])[0]:
            connection, _ = listener.accept()
            with connection:
                _answer(connection, listener)


def _import() -> None:
    """Import what the processes need. A module that is run must not be there: Python would warn of it."""
    import_modules()
    for name in _RUN:
        import_module(name)
        del sys.modules[name]


def _answer(connection: socket.socket, listener: socket.socket) -> None:
    """Fork a process for a request, and send the id of the process.

    The new process keeps the connection until it ends, so the other end knows when it does.
    """
    with suppress(OSError):  # the JVM may have ended whoever asks
        content, streams, _, _ = socket.recv_fds(connection, _LONGEST, _STREAMS)
        while not content.endswith(b"\n") and (more := connection.recv(_LONGEST)):
            content += more
        is_whole = content.endswith(b"\n")  # whoever asks may end before it has said everything
        pid = os.fork() if is_whole else None
        if pid == 0:
            listener.close()
            sys.exit(_run(json.loads(content), streams))
        for stream in streams:
            os.close(stream)
        if is_whole:
            connection.sendall(f"{pid}\n".encode())


def _run(request: dict[str, Any], streams: list[int]) -> int:
    """Run the module of a request in this process, which was forked for it; return the exit code."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.argv[:] = request["arguments"]
    try:
        runpy.run_module("endmark.spark.processes.python_process", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
