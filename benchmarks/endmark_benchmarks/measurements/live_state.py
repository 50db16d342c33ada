"""Time of a Spark batch of the stream join, by how many rows are live at one rate of input.

Windows of different lengths keep so many rows, and the streams' keys come from ranges as long, so that a row
has as many partners in each. As many batches precede
those that count, since the JVM goes on compiling.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from endmark.embedded.jars import spark_jars
from endmark_benchmarks.contenders import query
from endmark_benchmarks.contenders.stream_run import ours
from endmark_benchmarks.harness.origin import origin
from endmark_benchmarks.workloads import stream_input
from endmark_benchmarks.workloads.stream_input import KEYS, STREAM_DDL, WINDOW_SECONDS, figures_of

RESULTS = Path(__file__).parents[2] / "results" / "live_state.json"


def batches(jars: list[str], seconds: float, rows: int, before: int, measured: int) -> list[query.BatchRead]:
    """Run batches of the join and return those that are measured.

    Args:
        jars: the jars of the session.
        seconds: the window, whose rows are in state.
        rows: rows of a batch, of each stream.
        before: batches that are not measured.
        measured: batches that are.
    """
    keys = int(KEYS * seconds / WINDOW_SECONDS)
    recorded = stream_input.recorded(Path("var/bench"), before + measured, rows, print, keys)
    spark = query.session("live state", jars, driver_memory="6g")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
        a, b = (query.files(spark, recorded / side, STREAM_DDL, 1) for side in ("a", "b"))
        figures = figures_of("unix_micros(left_ts)", "unix_micros(right_ts)")
        try:
            found = query.drained(ours(a, b, seconds), Path(work) / "checkpoint", figures)
        finally:
            spark.stop()
    return [each for each in found if each.rows_read][-measured:]


def main(
    window: Annotated[list[float], typer.Option(default_factory=lambda: [0.5, 5.0, 50.0])],
    rows: int = 100_000,
    measured: int = 20,
    results: Path = RESULTS,
) -> None:
    """Run the join with each window and keep the times of its batches.

    Args:
        window: windows in seconds.
        rows: rows of a batch, of each stream.
        measured: batches that are measured.
        results: the directory of result files.
    """
    options = {"rows_per_file": rows, "measured_batches": measured}
    report: dict[str, Any] = {"bench": "live-state", **origin(), "options": options, "windows": []}
    jars = [str(jar) for jar in spark_jars(print)]
    for seconds in window:
        found = [each.seconds for each in batches(jars, seconds, rows, int(max(window)) + 1, measured)]
        figures = {
            "window_seconds": seconds,
            "live_rows": int(2 * rows * seconds),
            "batch_seconds": {"median": median(found), "least": min(found), "most": max(found)},
        }
        print(json.dumps(figures))
        report["windows"].append(figures)
    results.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
