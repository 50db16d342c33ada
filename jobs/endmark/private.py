"""Files and directories that no other user of the machine can read, replace or create before us.

A directory is created under a name that nobody can guess, with no rights for others, and its creator locks
it. The lock ends with the last process that has it open, so a directory without a lock is an orphan.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

# Other users get no rights to our files.
UMASK = 0o077
_OPENED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def keep_private() -> None:
    """From now on, create all files of this process and its children for our own user only.

    A directory with a default ACL is an exception, since Linux then ignores the umask.
    """
    os.umask(UMASK)


def private_directory(prefix: str, parent: Path | None = None) -> Path:
    """Create a directory for this process and its forks, and remove it when this process exits.

    Directories of the same prefix whose processes have all ended are removed first.

    Args:
        prefix: the beginning of the directory's name.
        parent: the directory above it; `None` is the directory for temporary files.
    """
    where = Path(tempfile.gettempdir()) if parent is None else parent
    remove_orphans(prefix, where)
    directory = _made_and_locked(prefix, where)
    atexit.register(_remove, directory, os.getpid())
    return directory


def remove_orphans(prefix: str, parent: Path) -> None:
    """Remove the directories of our own user in `parent` that no process holds any more.

    Links are never followed, and directories of other users stay.
    """
    for entry in os.scandir(parent):
        if not entry.name.startswith(prefix):
            continue
        try:
            opened = os.open(entry.path, _OPENED)
        except OSError:  # a link, a file, or a directory that we may not read or that has just been removed
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
            lock = os.open(directory, _OPENED)  # stays open for as long as the process lives
        except FileNotFoundError:
            continue  # another process took it for an orphan before it was locked
        fcntl.flock(lock, fcntl.LOCK_EX)
        if directory.exists():
            return directory
        os.close(lock)  # another process removed it between opening and locking


def _remove(directory: Path, maker: int) -> None:
    if os.getpid() == maker:
        shutil.rmtree(directory, ignore_errors=True)
