"""A child process that can be waited for and stopped, and that never outlives us."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from endmark.errors import MissingPartError

_LINES_SHOWN = 15
_POLL_SECONDS = 0.1


class ManagedProcess:
    """A child process in its own process group that writes to a log file.

    On Linux the kernel kills the child when the thread that started it ends, even by a crash. So start the
    child from the main thread, or from a thread that lives as long as the child must.

    Args:
        name: the name of the child, for errors.
        command: the command and its arguments.
        log: the file that gets the child's output.
        inherits: the file descriptors that the child inherits.
        stop_seconds: the seconds between the request to end and the kill.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        *,
        inherits: Sequence[int] = (),
        stop_seconds: float = 15.0,
    ) -> None:
        self.name = name
        self.log = log
        self._stop_seconds = stop_seconds
        self._log_start = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                _dying_with_us(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=inherits,
                process_group=0,
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    def wait_ready(self, is_ready: Callable[[], bool], seconds: float) -> None:
        """Wait until `is_ready()` returns true; kill the child if that fails.

        Args:
            is_ready: called again and again.
            seconds: the longest wait.

        Raises:
            MissingPartError: the child has ended, or the time is over; the text has its last lines.
        """
        deadline = time.monotonic() + seconds
        try:
            while not is_ready():
                if not self.running:
                    raise self._failure(f"ended with code {self._child.returncode} before it was ready")
                if time.monotonic() > deadline:
                    raise self._failure(f"was not ready after {seconds:.0f} s")
                time.sleep(_POLL_SECONDS)
        except BaseException:
            self.kill()
            raise

    def wait_done(self, seconds: float) -> None:
        """Wait for the child's own end, for `seconds` at most.

        Raises:
            MissingPartError: the child has failed, or the time is over; the text has its last lines.
        """
        try:
            code = self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise self._failure(f"was not done after {seconds:.0f} s") from None
        finally:
            self.kill()
        if code != 0:
            raise self._failure(f"failed with code {code}")

    def stop(self) -> None:
        """Ask the child to end, and kill it if it does not end in time. Idempotent."""
        if self.running:
            self._child.terminate()
            try:
                self._child.wait(self._stop_seconds)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """End the child's whole process group at once. Idempotent."""
        if self.running:
            os.killpg(self.pid, signal.SIGKILL)
        self._child.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _failure(self, what: str) -> MissingPartError:
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            lines = log.read().decode(errors="replace").splitlines()[-_LINES_SHOWN:]
        return MissingPartError("\n".join([f"{self.name} {what}; the end of {self.log} says:", *lines]))


def _dying_with_us(command: Sequence[str]) -> list[str]:
    # setpriv and the shell replace themselves by the next program, so the process id stays the same. A hook
    # between fork and exec would need neither, but it would run Python in a fork of a threaded process.
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return list(command)
    # The shell checks that we have not died before setpriv asked the kernel to watch us.
    unless_orphaned = ["sh", "-c", 'test "$PPID" = "$0" && exec "$@"', str(os.getpid())]
    return [setpriv, "--pdeathsig", "KILL", "--", *unless_orphaned, *command]
