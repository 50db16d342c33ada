"""The code of docs/frames.md in a program of its own: its session, its joins, and its tables."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from endmark.errors import ConfigError
from endmark.frame import configure

PAGE = Path(__file__).parents[2] / "docs/frames.md"
OVER = {"over": json.dumps({"order_id": {"equals": 42}})}
ROWS = {
    "orders": {"order_id": 42, "customer": "ann", "at": "2026-01-01T09:00:00Z"},
    "payments": {"order_id": 42, "amount": "12.50", "at": "2026-01-01T09:20:00Z"},
    "shipments": {"order_id": 42, "carrier": "post", "at": "2026-01-02T08:00:00Z"},
}


def test_a_program_needs_nothing_but_the_page(tmp_path: Path) -> None:
    """Its first cell may be run again, which was refused."""
    for name, row in ROWS.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.json").write_text(f"{json.dumps(row)}\n{json.dumps(OVER)}\n")
    session, example = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    twice = f"{session}\n{session}"  # as the first cell of a notebook is run again
    program = f"base = {str(tmp_path)!r}\n{twice}\n{example}\nspark.stop()"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, umask=0o022
    )

    assert done.returncode == 0, done.stderr
    [row] = DeltaTable(str(tmp_path / "shipped")).to_pyarrow_table().to_pylist()
    assert (row["left_order_id"], str(row["left_amount"]), row["right_carrier"]) == (42, "12.50", "post")
    over = DeltaTable(str(tmp_path / "over")).to_pyarrow_table()["punctuation"].to_pylist()
    assert {"left_order_id": {"equals": 42}} in [json.loads(text) for text in over]
    _check_modes(tmp_path)


def test_a_query_that_is_stopped_in_a_batch_says_nothing(tmp_path: Path) -> None:
    """Spark printed 1,000 lines of a `StackOverflowError`, since it searched the whole error of the sink."""
    [session, _] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    program = f"""{session}
import time
from endmark.frame import PunctuatedFrame
slow = "java_method('java.lang.Thread', 'sleep', 60000L) IS NULL AS slept"
rows = spark.readStream.format("rate").load().selectExpr("value", slow, "CAST(NULL AS string) AS over")
frame = PunctuatedFrame(rows, punctuations="over")
query = frame.write_delta({str(tmp_path / "rows")!r}, {str(tmp_path / "checkpoint")!r})
while not spark.sparkContext.statusTracker().getActiveJobsIds():
    time.sleep(0.1)
query.stop()
spark.stop()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "StackOverflowError" not in done.stderr


def _check_modes(base: Path) -> None:
    """No other user can enter a directory, or read a file that Spark has written."""
    kept = [base / name for name in ("shipped", "over", "wrong", "checkpoint")]
    assert [stat.S_IMODE(each.stat().st_mode) for each in kept] == [0o700] * 4
    written = [
        *base.glob("*/*.parquet"),
        *base.glob("*/_delta_log/*1.json"),
        *base.glob("checkpoint/spark/*/*"),
    ]
    assert len(written) > 5
    assert [file for file in written if file.stat().st_mode & 0o077] == []


@pytest.mark.parametrize("submitted", [False, True], ids=["stopped session", "spark-submit"])
def test_java_that_runs_already_gets_the_jars(submitted: bool, tmp_path: Path) -> None:
    """Java outlives a session that was stopped, and spark-submit starts it with jars of its own."""
    own = tmp_path / "own.jar"
    with zipfile.ZipFile(own, "w") as jar:
        jar.writestr("own.txt", "")
    session, _ = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    stopped = (
        "from pyspark.sql import SparkSession\nSparkSession.builder.master('local[1]').getOrCreate().stop()\n"
    )
    program = tmp_path / "program.py"
    program.write_text(
        f"{'' if submitted else stopped}{session}\n"
        f"spark.range(3).write.format('delta').save({str(tmp_path / 'table')!r})\n"
        "reader = spark.readStream.format('kafka').option('kafka.bootstrap.servers', 'localhost:1')\n"
        "print('columns', reader.option('subscribe', 'topic').load().columns)\n"
        "print('jars', spark.sparkContext.getConf().get('spark.jars'))\n"
    )
    submit = [str(Path(sys.executable).with_name("spark-submit")), "--jars", str(own)]

    done = subprocess.run(
        [*(submit if submitted else [sys.executable]), str(program)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
    )

    assert done.returncode == 0, done.stderr
    assert DeltaTable(str(tmp_path / "table")).to_pyarrow_table().num_rows == 3
    assert "columns ['key', 'value'" in done.stdout
    assert ("own.jar" in done.stdout) == submitted


def test_a_session_that_runs_already_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="a Spark session is already running"):
        configure(SparkSession.builder)
