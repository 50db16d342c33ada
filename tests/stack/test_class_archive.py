"""The archive of Spark's classes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from endmark.embedded.jars import spark_jars
from endmark.spark.processes import class_archive
from endmark.spark.processes.class_archive import archive_of, local_jars, record

# Prints what Java was told.
STARTED = """
import json, sys
from pathlib import Path
from endmark.spark.session import start_session

jars = [Path(jar) for jar in sys.argv[1:]]
spark = start_session("archived", jars, master="local[2]", shuffle_partitions=2, driver_memory="700m")
print(json.dumps(spark.conf.get("spark.driver.defaultJavaOptions")))
"""


OTHERS = ["unused-1-1.jsa", "second-1-1.jsa", "last-1-1.jsa"]  # the later, the later used


@pytest.fixture(scope="module")
def recorded(jars: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of its own, with the jars that there are and an archive recorded beside them, not the first.

    Other installations have recorded theirs before.
    """
    home = tmp_path_factory.mktemp("home")
    (home / "jars").symlink_to(jars[0].parent.parent.parent)
    (home / "classes").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENDMARK_HOME", str(home))
        class_archive._in_vain(spark_jars(print)).touch()
        (home / "classes" / f"{class_archive._place()}-former-1.jsa").touch()
        for day, name in enumerate(OTHERS):
            (home / "classes" / name).touch()
            os.utime(home / "classes" / name, (day, day))
        record(spark_jars(print))
    return home


@pytest.fixture
def home(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """It, for a test that may replace what it keeps."""
    monkeypatch.setenv("ENDMARK_HOME", str(recorded))
    shutil.copytree(recorded / "classes", tmp_path / "classes", copy_function=os.link)
    yield recorded
    shutil.rmtree(recorded / "classes", ignore_errors=True)
    (recorded / "classes").unlink(missing_ok=True)
    (tmp_path / "classes").rename(recorded / "classes")


def the_archive(jars: list[Path]) -> Path:
    found = archive_of(jars)
    assert found is not None
    return found


def started(jars: list[Path], **environment: str) -> tuple[str, str]:
    """Start a session, and return Java's options and the session's whole output."""
    command = [sys.executable, "-c", STARTED, *map(str, jars)]
    ended = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=300, check=True
    )
    return json.loads(ended.stdout.splitlines()[-1]), ended.stdout + ended.stderr


def test_a_session_has_its_classes_from_the_archive(home: Path, tmp_path: Path) -> None:
    """Java says so of most of them, and has the archive where it was recorded."""
    jars = local_jars(print)
    log = tmp_path / "java.log"
    told, _ = started(jars, SPARK_SUBMIT_OPTS=f"-Xlog:class+load,cds=info:file={log}")
    loaded = [line for line in log.read_text().splitlines() if " source: " in line]
    archived = [line for line in loaded if line.endswith("shared objects file (top)")]

    assert str(the_archive(jars)) in told
    assert len(archived) > len(loaded) / 2
    assert "at an alternative address" not in log.read_text()


def test_what_is_of_no_use_is_removed(home: Path) -> None:
    """Nothing is left of an earlier attempt, of a version of Java and jars that is no more, or of the
    installation that has not been used for longest."""
    left = sorted(file.name for file in (home / "classes").iterdir())

    assert left == sorted([the_archive(local_jars(print)).name, *OTHERS[1:], "recording.lock"])


def test_a_start_uses_its_archive(home: Path) -> None:
    """So that another installation that records its own does not remove it."""
    archive = the_archive(spark_jars(print))
    os.utime(archive, (0, 0))
    local_jars(print)
    (home / "classes" / "another-1-1.jsa").touch()
    class_archive._remove_unused()
    assert archive.exists()

    os.utime(archive, (0, 0))
    (home / "classes" / "one-more-1-1.jsa").touch()
    class_archive._remove_unused()
    assert not archive.exists()


def test_a_program_that_fails_leaves_no_archive(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next start records another one. An archive without the classes of a batch was used for ever."""
    jars = spark_jars(print)
    the_archive(jars).unlink()
    (tmp_path / "failing.py").write_text(f"{STARTED}\nraise SystemExit(1)\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setattr(class_archive, "_EXERCISE", "failing")
    said: list[str] = []
    local_jars(said.append)

    assert archive_of(jars) is None
    assert not class_archive._in_vain(jars).exists()
    assert "going on without: the program that Java records has failed" in said[-1]


def test_an_archive_is_of_its_jars(home: Path, tmp_path: Path) -> None:
    """With others, Java would leave it aside."""
    jars = local_jars(print)
    other = tmp_path / "other.jar"
    other.write_bytes(b"")

    assert the_archive(jars).parent == home / "classes"
    assert archive_of([*jars, other]) is None


def test_java_says_nothing_of_an_archive_that_does_not_fit(home: Path, tmp_path: Path) -> None:
    """A session starts without it."""
    jars = local_jars(print)
    archive = the_archive(jars)
    other = tmp_path / "first.jar"
    shutil.copy(jars[0], other)
    others = [other, *jars]
    _, usual = started(others)
    length = archive.stat().st_size
    archive.rename(
        archive.with_name(f"{class_archive._place()}-{class_archive._version(others)}-{length}.jsa")
    )
    told, said = started(others)

    assert str(the_archive(others)) in told
    assert len(said.splitlines()) == len(usual.splitlines())


def test_an_archive_that_was_cut_off_is_none(home: Path) -> None:
    """Java would crash on it."""
    jars = local_jars(print)
    archive = the_archive(jars)
    content = archive.read_bytes()
    archive.unlink()
    archive.write_bytes(content[: len(content) // 2])

    assert archive_of(jars) is None


def test_a_job_waits_for_no_other_that_records(home: Path) -> None:
    jars = local_jars(print)
    for archive in (home / "classes").glob("*.jsa"):
        archive.unlink()
    said: list[str] = []
    with class_archive._only_one_process(wait=False):
        assert local_jars(said.append) == jars

    assert said[-1] == "another process is recording them; going on without"
    assert archive_of(jars) is None


def test_what_cannot_be_recorded_is_tried_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a Java without sharing, say."""
    jars = local_jars(print)
    for archive in (home / "classes").glob("*.jsa"):
        archive.unlink()
    said: list[str] = []
    with monkeypatch.context() as without:
        without.setenv("SPARK_SUBMIT_OPTS", "-Xshare:off")
        assert local_jars(said.append) == jars
        assert "going on without: Java has recorded no classes" in said[-1]
    assert local_jars(said.append) == jars
    assert len(said) == 2


def test_a_home_that_is_no_directory_of_ours_is_no_reason_to_fail(home: Path) -> None:
    jars = local_jars(print)
    shutil.rmtree(home / "classes")
    (home / "classes").write_text("")
    said: list[str] = []

    assert local_jars(said.append) == jars
    assert said[-1].startswith("going on without: ")
