"""A failed query leaves one line behind, with a place and a cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from endmark.driver.failure import cause_of, failure_of
from endmark.errors import ConfigError, TaskError, failing_at
from endmark.spark.queries import StallNotice
from support.planned_batches import spark_checkpoint

SPARKS_WORDS = "org.apache.spark.api.python.PythonException: An exception was thrown from the Python worker."

NO_ENDMARK = "ModuleNotFoundError: No module named 'endmark'"
NO_PYTHON = 'java.io.IOException: Cannot run program "/no/python": error=2, No such file or directory'
WORKERS = (
    "; let spark.pyspark.python name a Python that has endmark and its packages, on the driver and on each "
    "node (docs/cluster.md)"
)


def test_a_failure_is_one_line_with_place_and_cause(tmp_path: Path) -> None:
    ends = [{"bids": {"0": 10, "1": 5}}, {"bids": {"0": 25, "1": 5, "2": 1}, "items": {"0": 3}}]
    directory = spark_checkpoint(tmp_path, ends, committed=1)
    failure = f"{SPARKS_WORDS}\nendmark.errors.TaskError: topic bids: KeyError: 'x'\n\tat org.apache.spark.X"

    assert failure_of(failure, "auction", directory, "localhost:9092") == (
        "pipeline auction, batch 1 (bids/0 offsets 10 to 24, bids/2 offsets 0 to 0, items/0 offsets 0 to 2): "
        "topic bids: KeyError: 'x'"
    )


def test_no_batch_is_at_hand_before_the_first(tmp_path: Path) -> None:
    assert (
        failure_of("java.io.IOException: no disk", "a", tmp_path, "b")
        == "pipeline a: java.io.IOException: no disk"
    )


@pytest.mark.parametrize(
    ("failure", "cause"),
    [
        (f"{SPARKS_WORDS}\nendmark.errors.ConfigError: first\nendmark.x.TaskError: last\n", "last"),
        ("py4j.Py4JException: Return Message: Traceback\n  File x\nKeyError: 'y'\n\n\tat z", "KeyError: 'y'"),
        ("a.b.CException: outer\nCaused by: d.e.FException: inner\n\tat g", "d.e.FException: inner"),
        (
            "a.NoSuchFileException: /c/spark/state/0/1/4.changelog",
            (
                "a.NoSuchFileException: /c/spark/state/0/1/4.changelog; restore this file from a copy of the "
                "checkpoint, or begin a new checkpoint by `endmark migrate FILE`"
            ),
        ),
        *(
            (
                f"java.io.FileNotFoundException: /c/spark/state/0/1/4.changelog ({why})",
                (
                    f"java.io.FileNotFoundException: /c/spark/state/0/1/4.changelog ({why}); mend the disk, "
                    "the rights or the limits of the job, and run it again from its checkpoint, which is "
                    "whole"
                ),
            )
            for why in ("Read-only file system", "Permission denied", "Too many open files")
        ),
        (
            "a.AException: File already exists: s3a://b/c/spark/commits/1",
            (
                "another job has gone on from this checkpoint, and this one writes nothing more: "
                "a.AException: File already exists: s3a://b/c/spark/commits/1. It was paused for so long "
                "that it counted as dead"
            ),
        ),
        (
            "[A] Traceback\nModuleNotFoundError: No module named 'endmark'\n SQLSTATE: 38",
            NO_ENDMARK + WORKERS,
        ),
        (f"{NO_PYTHON}\n\tat x", NO_PYTHON + WORKERS),
        ("nothing known", "nothing known"),
    ],
)
def test_cause(failure: str, cause: str) -> None:
    assert cause_of(failure, "localhost:9092") == cause


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("x"), "here: KeyError: 'x'"),
        (ConfigError("two\nlines"), "here: two lines"),
        (TaskError("there: x"), "here: there: x"),
    ],
)
def test_an_error_gets_its_place(error: Exception, text: str) -> None:
    with pytest.raises(TaskError) as raised, failing_at(lambda: "here"):
        raise error

    assert str(raised.value) == text


def test_a_stall_is_noticed_after_ten_seconds_and_each_doubling(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("endmark.spark.queries.time.monotonic", lambda: now)
    notices: list[str] = []
    notice = StallNotice(notices.append)
    for second in range(45):
        now = float(second)
        notice.look("Getting offsets", 3)
    assert notices == [f"for {seconds} s: Getting offsets" for seconds in (10, 20, 40)]

    for second in range(45, 100):
        now = float(second)
        notice.look("Processing new data", second // 9)  # a batch of nine seconds after the other
        notice.look("Processing new data", second // 9)
    for second in range(100, 150):
        now = float(second)
        notice.look("Waiting for next trigger", 99)
    assert len(notices) == 3
