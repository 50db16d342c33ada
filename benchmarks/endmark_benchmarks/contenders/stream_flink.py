"""Flink's interval join over recorded streams, in a process of its own; task and figures as `stream_run`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from endmark_benchmarks.contenders import flink
from endmark_benchmarks.harness.digest import figures
from endmark_benchmarks.workloads.stream_input import WINDOW_SECONDS, side_code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark_benchmarks.contenders.flink import Said

# Flink's event time has milliseconds. Two rows within the window are so in whole milliseconds, too; it is
# for the condition on `us` to tell those that are not. A second of slack as Spark's contenders have it.
_COLUMNS = """
k BIGINT, us BIGINT, v BIGINT, p STRING,
t AS TO_TIMESTAMP_LTZ(us / 1000, 3), WATERMARK FOR t AS t - INTERVAL '1' SECOND"""
_JOINED = f"""
SELECT GREATEST(a.us, b.us) / 1000000, {", ".join(figures(side_code("a.", "a.us"), side_code("b.", "b.us")))}
FROM a JOIN b ON a.k = b.k AND ABS(a.us - b.us) <= {WINDOW_SECONDS * 1_000_000}
AND b.t BETWEEN a.t - INTERVAL '{WINDOW_SECONDS}' SECOND AND a.t + INTERVAL '{WINDOW_SECONDS}' SECOND
GROUP BY GREATEST(a.us, b.us) / 1000000"""  # noqa: S608  # of constants
STATE = {
    "flink-heap": {"state.backend.type": "hashmap"},
    "flink-rocksdb": {
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
        "taskmanager.memory.managed.size": "2g",
    },
}


def rate(said: Sequence[Said], files: int, rows: int) -> float:
    """Return the input rows a second after the first third of the files.

    That third is read when the last result is there whose later row is in it.

    Args:
        said: the sums of the answers over time.
        files: the files of each stream.
        rows: the rows of a file.
    """
    third = files // 3
    read = max(each.seconds for each in said if each.part < third)
    return 2 * rows * (files - third) / (said[-1].seconds - read)


def main() -> None:
    task: dict[str, Any] = json.load(sys.stdin)
    tables = [flink.parquet(name, _COLUMNS, Path(task["directory"], f"{name}-halves")) for name in ("a", "b")]
    said = flink.run(task["flink_jars"], STATE[task["contender"]], tables, _JOINED)
    print(json.dumps({"given": flink.total(said), "rate": rate(said, task["files"], task["rows"])}))


if __name__ == "__main__":
    main()
