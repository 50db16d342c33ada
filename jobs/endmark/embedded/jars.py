"""The jars that an `ivy.xml` pins. The Ivy inside pyspark fetches them once into a cache.

Each use compares the jars with the checksums in `jars.sha256` beside the `ivy.xml`. After a change of an
`ivy.xml`,

    python -m endmark.embedded.jars DIRECTORY > jars.sha256

writes the checksums for its directory anew. A diff of that file then shows which jars have changed.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from endmark.embedded.java import require_java
from endmark.errors import MissingPartError

Say = Callable[[str], None]

_PINS = Path(__file__).parent
_SAY_EVERY_SECONDS = 3.0
_MISSING = re.compile(r":: (\S+#\S+;\S+: not found)|(\[FAILED\s+\]\s+\S+)|(download failed: \S+)")


def spark_jars(say: Say) -> list[Path]:
    """Return the paths of the jars that a job needs beyond Spark's own, sorted by name.

    `say` is called with lines of progress while jars are fetched.

    Raises:
        MissingPartError: there is no Java or pyspark, or a jar cannot be fetched, or is not the pinned one.
    """
    return pinned_jars(_PINS, "spark", "Spark's Kafka and Delta jars", say)


def s3_jars(say: Say) -> list[Path]:
    """Return the paths of the jars that a job with its checkpoint in S3 needs beside, sorted by name.

    `say` is called with lines of progress while jars are fetched.

    Raises:
        MissingPartError: there is no Java or pyspark, or a jar cannot be fetched, or is not the pinned one.
    """
    return pinned_jars(_PINS, "s3", "the jars of S3", say)


def broker_jars(say: Say) -> list[Path]:
    """Return the paths of the jars of a Kafka broker, sorted by name.

    `say` is called with lines of progress while jars are fetched.

    Raises:
        MissingPartError: there is no Java or pyspark, or a jar cannot be fetched, or is not the pinned one.
    """
    return pinned_jars(_PINS, "broker", "the Kafka broker's jars", say)


def cache_home() -> Path:
    """Return the directory for fetched files: `ENDMARK_HOME`, or else `endmark` in the user's cache."""
    if home := os.environ.get("ENDMARK_HOME"):
        return Path(home).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "endmark").absolute()


def pinned_jars(pins: Path, configuration: str, title: str, say: Say) -> list[Path]:
    """Return the paths of the jars of one configuration, sorted by name; fetch them if they are missing.

    Args:
        pins: a directory with `ivy.xml` and `jars.sha256`.
        configuration: the name of a configuration in that `ivy.xml`.
        title: a name for the jars in messages.
        say: called with lines of progress while jars are fetched.

    Raises:
        MissingPartError: there is no Java or pyspark, or a jar cannot be fetched, or is not the pinned one.
    """
    target = cache_home() / "jars" / pins_digest(pins) / configuration
    if not target.is_dir():
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with _only_one_process(title, say):
                if not target.is_dir():
                    _fetch(pins, configuration, title, target, say)
        except OSError as error:
            where = f"{title} in {cache_home()}"
            raise MissingPartError(
                f"cannot keep {where}: {error.strerror}; set ENDMARK_HOME to a directory of yours"
            ) from error
    found = sorted(target.iterdir())
    _check(pins, configuration, found, target)
    return found


def pins_digest(pins: Path) -> str:
    """Return a hash of a directory's `ivy.xml`, which names the directory of its jars in the cache."""
    return hashlib.sha256((pins / "ivy.xml").read_bytes()).hexdigest()[:12]


def _check(pins: Path, configuration: str, jars: list[Path], where: Path) -> None:
    """Compare jars with their pinned checksums.

    Raises:
        MissingPartError: a jar is missing, is one too many, or has another checksum than in `jars.sha256`.
    """
    lines = (pins / "jars.sha256").read_text().splitlines()
    pairs = (line.split("  ", 1)[::-1] for line in lines)
    pinned = {name: digest for name, digest in pairs if name.startswith(f"{configuration}/")}
    found = {f"{configuration}/{jar.name}": _digest(jar) for jar in jars}
    for name in sorted(pinned.keys() | found.keys()):
        if pinned.get(name) != found.get(name):
            jar = name.partition("/")[2]
            raise MissingPartError(
                f"{jar} is not the jar that endmark was made with: its SHA-256 is "
                f"{found.get(name, 'that of nothing')} instead of {pinned.get(name, 'unknown')}; "
                f"remove {where} and try again, and trust no repository that gives it again"
            )


def _digest(jar: Path) -> str:
    with jar.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _only_one_process(title: str, say: Say) -> Iterator[None]:
    # All configurations share one lock, since they share Ivy's own cache, which has no locks.
    with (cache_home() / "fetching.lock").open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that fetches jars, then for {title}")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _fetch(pins: Path, configuration: str, title: str, target: Path, say: Say) -> None:
    """Fetch jars into `target`. The directory appears only when all jars are in it and checked."""
    with tempfile.TemporaryDirectory(prefix=f"{configuration}-", dir=target.parent) as scratch:
        jars = Path(scratch, "jars")
        started = time.monotonic()
        _retrieve(pins, configuration, title, jars, say)
        _check(pins, configuration, sorted(jars.iterdir()), target)
        jars.rename(target)
    count, seconds = len(list(target.iterdir())), time.monotonic() - started
    say(f"fetched {title}: {count} in {seconds:.0f} s")


def _retrieve(pins: Path, configuration: str, title: str, jars: Path, say: Say) -> None:
    ivy_home = cache_home() / "ivy"
    command = [require_java(), f"-Divy.default.ivy.user.dir={ivy_home}", "-jar", _ivy()]
    command += ["-ivy", pins / "ivy.xml", "-confs", configuration, "-types", "jar", "bundle"]
    command += ["-retrieve", f"{jars}/[artifact]-[revision](-[classifier]).[ext]"]
    _run_ivy([str(word) for word in command], title, say)
    # Ivy's cache would only help to resume a fetch that was cut off.
    shutil.rmtree(ivy_home, ignore_errors=True)


def _run_ivy(command: list[str], title: str, say: Say) -> None:
    say(f"fetching {title} (once, into {cache_home()})")
    found = fetched = 0
    said = time.monotonic()
    problems: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy:
        for line in ivy.stdout or ():
            found += line.startswith("\tfound ")
            fetched += line.startswith("\t[SUCCESSFUL ]")
            if problem := _MISSING.search(line):
                problems.append(problem[0].removeprefix(":: "))
            if time.monotonic() - said > _SAY_EVERY_SECONDS:
                said = time.monotonic()
                say(f"fetching {title}: {found} found, {fetched} fetched")
    if ivy.returncode != 0:
        named = "; ".join(dict.fromkeys(problems)) or f"Ivy ended with code {ivy.returncode}"
        raise MissingPartError(f"cannot fetch {title}: {named}; check the network connection and try again")


def _ivy() -> Path:
    # `find_spec` does not import pyspark, which commands without a job do not need.
    spark = importlib.util.find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise MissingPartError("pyspark is not installed; pip install 'endmark[spark]'")
    return next(Path(spark.origin).parent.glob("jars/ivy-*.jar"))


def main() -> None:
    """Fetch all jars that a directory pins, and print their checksums."""
    pins = Path(sys.argv[1])

    def say(line: str) -> None:
        print(line, file=sys.stderr)

    names = re.findall(r'<conf name="(\w+)"', (pins / "ivy.xml").read_text())
    with tempfile.TemporaryDirectory() as scratch:
        for configuration in sorted(names):
            _retrieve(pins, configuration, configuration, Path(scratch, configuration), say)
        for jar in sorted(Path(scratch).glob("*/*")):
            print(f"{_digest(jar)}  {jar.relative_to(scratch)}")


if __name__ == "__main__":
    main()
