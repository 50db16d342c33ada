"""The archive of Spark's classes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from endmark.spark.class_archive import archive_of, record

# Prints what Java was told.
STARTED = """
import json, sys
from pathlib import Path
from endmark.spark.session import start_session

jars = [Path(jar) for jar in sys.argv[1:]]
spark = start_session("archived", jars, master="local[2]", shuffle_partitions=2, driver_memory="700m")
print(json.dumps(spark.conf.get("spark.driver.defaultJavaOptions")))
"""


def test_a_session_has_its_classes_from_the_archive(
    jars: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java says so of most of them."""
    monkeypatch.setenv("ENDMARK_HOME", str(tmp_path))
    archive = record(jars)
    assert archive == archive_of(jars)

    log = tmp_path / "classes.log"
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", f"-Xlog:class+load:file={log}")
    command = [sys.executable, "-c", STARTED, *map(str, jars)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    loaded = [line for line in log.read_text().splitlines() if " source: " in line]
    archived = [line for line in loaded if line.endswith("shared objects file (top)")]

    assert str(archive) in json.loads(ended.stdout.splitlines()[-1])
    assert len(archived) > len(loaded) / 2


def test_an_archive_is_of_its_jars(jars: list[Path], tmp_path: Path) -> None:
    """Others would have Java leave it aside at each start."""
    other = tmp_path / "other.jar"
    other.write_bytes(b"")

    assert archive_of(jars) != archive_of([*jars, other])
