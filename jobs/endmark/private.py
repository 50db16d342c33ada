"""Files and directories that no other user of the machine may read, replace or make before us.

A directory is made under a name that nobody can guess, with no rights for others, and its maker holds a lock
on it. The lock ends with the last process that has it open, so a directory without one is an orphan.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

# The rights that others do not get to what we make: all of them.
UMASK = 0o077
_OPENED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def keep_private() -> None:
    """Let all files that this process and its children make from now on be for our own user alone.

    A directory with a default ACL is an exception that its owner makes: Linux then leaves out the mask.
    """
    os.umask(UMASK)


def private_directory(prefix: str, parent: Path | None = None) -> Path:
    """Make a directory for this process and the processes that it forks; it is removed when this one exits.

    Directories of the same prefix whose processes have all ended are removed first.

    Args:
        prefix: says what the directory is for.
        parent: where it is made, the directory for temporary files unless said.
    """
    where = Path(tempfile.gettempdir()) if parent is None else parent
    remove_orphans(prefix, where)
    directory = _made_and_locked(prefix, where)
    atexit.register(_remove, directory, os.getpid())
    return directory


def remove_orphans(prefix: str, parent: Path) -> None:
    """Remove the directories of our own user in `parent` that no process holds any more.

    A link is never followed, and what belongs to another user stays.
    """
    for entry in os.scandir(parent):
        if not entry.name.startswith(prefix):
            continue
        try:
            opened = os.open(entry.path, _OPENED)
        except OSError:  # a link, a file, or a directory that is closed to us or has just gone
            continue
        try:
            if os.fstat(opened).st_uid == os.geteuid():
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(entry.path, ignore_errors=True)
        except BlockingIOError:
            pass  # in use
        finally:
            os.close(opened)


def _made_and_locked(prefix: str, parent: Path) -> Path:
    while True:
        directory = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        try:
            lock = os.open(directory, _OPENED)  # which stays open for as long as the process lives
        except FileNotFoundError:
            continue  # before it was locked, another process took it for an orphan
        fcntl.flock(lock, fcntl.LOCK_EX)
        if directory.exists():
            return directory
        os.close(lock)  # likewise


def _remove(directory: Path, maker: int) -> None:
    if os.getpid() == maker:
        shutil.rmtree(directory, ignore_errors=True)
