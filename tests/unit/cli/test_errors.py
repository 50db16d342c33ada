"""Errors that end a command: in one line and by an exit code, if a person can mend them."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest
import typer

from endmark.cli.app import main
from endmark.errors import EXIT_FAILED, EXIT_USAGE


def failing_with(error: OSError) -> typer.Typer:
    """A command line whose only command fails."""
    app = typer.Typer(pretty_exceptions_enable=False)

    @app.command()
    def run() -> None:
        raise error

    return app


@pytest.mark.parametrize(
    ("number", "file", "code", "says"),
    [
        (errno.EACCES, "/here", EXIT_USAGE, "/here: Permission denied; name a place that this user can"),
        (errno.EROFS, "/here", EXIT_USAGE, "/here: Read-only file system; name a place that this user can"),
        (errno.ENOSPC, "/here", EXIT_FAILED, "/here: No space left on device; make room, and start again"),
        (errno.ENOSPC, None, EXIT_FAILED, "No space left on device; make room, and start again"),
    ],
)
def test_a_file_that_cannot_be_written_is_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
    file: str | None,
    code: int,
    says: str,
) -> None:
    monkeypatch.setattr("sys.argv", ["endmark"])
    with pytest.raises(SystemExit) as ended:
        main(failing_with(OSError(number, os.strerror(number), file)))
    assert ended.value.code == code
    assert capsys.readouterr().err.startswith(f"endmark: {says}")


def test_a_connection_that_breaks_is_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a fault of ours if it comes so far, and keeps its traceback."""
    monkeypatch.setattr("sys.argv", ["endmark"])
    with pytest.raises(ConnectionResetError):
        main(failing_with(ConnectionResetError(errno.ECONNRESET, "reset")))


# Ctrl-C comes when the command's first package is imported.
INTERRUPTED = """
import signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            signal.raise_signal(signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupt())
from endmark.cli.__main__ import main
main()
"""


def test_ctrl_c_leaves_no_traceback_while_a_command_is_loaded() -> None:
    """Python takes a second for that, and printed 40 lines."""
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, "--version"], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
