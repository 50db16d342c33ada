"""An archive of the classes that Spark loads. Java maps it instead of reading and linking 20,000 classes.

An archive fits one Java, one pyspark and one set of jars. Its name has a hash of these, and its length, since
Java would crash on an archive that was cut off. The archive is recorded once, before the first session that
could use it. A newer archive for the same Java and pyspark replaces it. The archives of the three
installations that were used last are kept. A session without an archive only starts later.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from endmark.embedded.jars import cache_home, spark_jars
from endmark.embedded.java import find_java, require_java
from endmark.errors import MissingPartError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from endmark.embedded.jars import Say

_RECORD_SECONDS = 900  # against a program that hangs; beside twenty programs on two cores it took 187 s
_EXERCISE = "endmark.spark.processes.class_exercise"
_KEPT = 3  # archives, of 190 MB each


def local_jars(say: Say) -> list[Path]:
    """Return the jars of a session on this machine, and record an archive of its classes if there is none.

    `say` is called with a line when jars are fetched or classes are recorded. A session without an archive
    works, so a failure to record one is only said.

    Raises:
        MissingPartError: there is no Java or pyspark, or a jar cannot be fetched, or is not the pinned one.
    """
    jars = spark_jars(say)
    try:
        if archive := archive_of(jars):
            _note_use(archive)
        elif not _in_vain(jars).exists():
            say("recording the classes that jobs load (once), with which they start sooner")
            with _only_one_process(wait=False) as held:
                _record(jars, held)
    except BlockingIOError:
        say("another process is recording them; going on without")
    except (OSError, MissingPartError) as error:
        say(f"going on without: {error}")
    return jars


def record(jars: Sequence[Path]) -> Path:
    """Record the archive with a session that does what jobs do; replace an existing archive.

    Raises:
        MissingPartError: there is no Java, or Java did not write the archive.
    """
    with _only_one_process(wait=True) as held:
        return _record(jars, held)


def archive_of(jars: Sequence[Path]) -> Path | None:
    """Return the archive for a session with these jars; `None` if there is no complete one."""
    for archive in _home().glob(f"{_place()}-{_version(jars)}-*.jsa"):
        if archive.stat().st_size == int(archive.stem.rpartition("-")[2]):
            return archive
    return None


def _record(jars: Sequence[Path], held: int) -> Path:
    partial = _home() / f"{_place()}.part"
    partial.unlink(missing_ok=True)
    for former in _home().glob(f"{_place()}-*.jsa"):
        former.unlink(missing_ok=True)  # a session that uses an archive records none
    failed, said = _exercised(jars, partial, held)
    if not partial.exists():
        _in_vain(jars).touch()
        raise MissingPartError(f"Java has recorded no classes: {said.strip()[-500:]}")
    if failed:  # a starved machine did that; the archive lacked a fifth of the classes, for all later starts
        partial.unlink()
        raise MissingPartError(f"the program that Java records has failed: {said.strip()[-500:]}")
    with partial.open("rb") as written:
        os.fsync(written.fileno())
    _in_vain(jars).unlink(missing_ok=True)
    recorded = partial.rename(_home() / f"{_place()}-{_version(jars)}-{partial.stat().st_size}.jsa")
    _remove_unused()
    return recorded


def _note_use(archive: Path) -> None:
    with suppress(PermissionError):  # the archive of another user, whose jobs note their own use
        os.utime(archive)


def _remove_unused() -> None:
    """Remove all archives but the last used ones. A running session keeps an archive that it has mapped."""
    archives = sorted(_home().glob("*.jsa"), key=lambda archive: archive.stat().st_mtime_ns)
    for archive in archives[:-_KEPT]:
        archive.unlink(missing_ok=True)


def _exercised(jars: Sequence[Path], archive: Path, held: int) -> tuple[bool, str]:
    """Run the program whose classes Java records; return whether it failed, and its stderr.

    Args:
        jars: the jars of the session.
        archive: the file that Java writes.
        held: the file descriptor of the lock; the program inherits it, so the lock lasts until both end.
    """
    require_java()
    recorded = f"-XX:ArchiveClassesAtExit={archive} -Xlog:cds=off,cds+dynamic=off"
    options = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {recorded}"
    command = [sys.executable, "-m", _EXERCISE, *map(str, jars)]
    try:
        ended = subprocess.run(
            command,
            env=os.environ | {"SPARK_SUBMIT_OPTS": options},
            capture_output=True,
            text=True,
            check=False,
            timeout=_RECORD_SECONDS,
            pass_fds=[held],
        )
    except subprocess.TimeoutExpired:
        return True, f"it took more than {_RECORD_SECONDS} s"
    return ended.returncode != 0, ended.stderr


@contextmanager
def _only_one_process(*, wait: bool) -> Iterator[int]:
    """Hold the lock for recording; yield its file descriptor.

    Raises:
        BlockingIOError: another process records, and `wait` is false.
    """
    _home().mkdir(parents=True, exist_ok=True)
    with (_home() / "recording.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield held.fileno()


def _in_vain(jars: Sequence[Path]) -> Path:
    """Return the path of a file that exists once recording has failed, so that later starts do not retry."""
    return _home() / f"{_place()}-{_version(jars)}.failed"


def _home() -> Path:
    return cache_home() / "classes"


def _place() -> str:
    """Return the name of the folder for this Java and pyspark."""
    return _hashed(_java_and_spark())


def _version(jars: Sequence[Path]) -> str:
    files = [*_java_and_spark(), *jars]
    return _hashed([f"{file} {file.stat().st_mtime_ns}" for file in files])


def _java_and_spark() -> list[Path]:
    # `find_spec` does not import pyspark, which commands without a job do not need.
    spark = importlib.util.find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise MissingPartError("pyspark is not installed; pip install 'endmark[spark]'")
    return [find_java().resolve(), Path(spark.origin)]


def _hashed(parts: Sequence[Path | str]) -> str:
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]
