"""A claim keeps a data directory for one server at a time."""

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
    """Claim a directory for a server; yield a file descriptor that the server must inherit.

    A missing directory is created for our own user only. The claim lasts as long as any process has the
    descriptor open. So the end of the server ends the claim, even after a crash.

    Args:
        data_dir: the directory.
        part: the name of the server, for errors.

    Raises:
        MissingPartError: another process keeps the directory for 3 s more, or it cannot be written.
    """
    with _open(data_dir, part) as claim:
        # A server that was killed a moment ago may still hold the claim.
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
