"""Keeping a data directory to one server at a time."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from endmark.errors import MissingPartError

_GRACE_SECONDS = 3.0
_POLL_SECONDS = 0.05


@contextmanager
def claimed(data_dir: Path, part: str) -> Iterator[int]:
    """Create a claim on `data_dir`: a file descriptor to hand to the server.

    A directory that is missing is made for our own user alone. The claim lasts as long as somebody has the
    descriptor open, so a server that inherits it gives it up by ending, however it ends. Raises
    `MissingPartError` when somebody else has the directory for 3 s more.
    """
    with _open(data_dir, part) as claim:
        # As with its port, a predecessor that was killed a moment ago may still have it.
        deadline = time.monotonic() + _GRACE_SECONDS
        while not _take(claim.fileno()):
            if time.monotonic() > deadline:
                raise MissingPartError(
                    f"{part}: another one runs in {data_dir}; stop it or give another directory"
                )
            time.sleep(_POLL_SECONDS)
        yield claim.fileno()


def _open(data_dir: Path, part: str) -> TextIO:
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        return (data_dir / "claim").open("w")
    except OSError as error:
        raise MissingPartError(
            f"{part}: cannot write to {data_dir}: {error.strerror}; give another directory"
        ) from error


def _take(claim: int) -> bool:
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
