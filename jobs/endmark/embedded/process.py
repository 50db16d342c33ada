"""A child process that is waited for, stopped in time, and never outlives us."""

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

    On Linux the kernel kills the child when the thread that started it ends, however it ends. So start it
    from the main thread, or from one that lives as long as the child should.

    Args:
        name: its name, for errors.
        command: its command.
        log: the log file.
        inherits: file descriptors that the child gets; all others stay ours.
        stop_seconds: seconds that it has to end when it is asked to.
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
        """Return once `is_ready()`; else stop the child and raise `MissingPartError` with its last words."""
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
        """Wait for the child's own end; raise `MissingPartError` with its last words on failure."""
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
    # setpriv and the shell execute the next program in their own place, so the id stays ours to signal.
    # A hook between fork and exec would need neither, but run Python in a fork of a threaded process.
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return list(command)
    # The shell sees to it that we have not died before the kernel was asked to watch.
    unless_orphaned = ["sh", "-c", 'test "$PPID" = "$0" && exec "$@"', str(os.getpid())]
    return [setpriv, "--pdeathsig", "KILL", "--", *unless_orphaned, *command]
