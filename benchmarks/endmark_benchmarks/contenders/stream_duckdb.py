"""DuckDB's one join of both streams, in a process of its own; task and figures as of `stream_run`.

No rows come and nothing is kept for a restart: how fast a join of these rows can be here, once they are in
memory.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from endmark_benchmarks.contenders.query import CORES
from endmark_benchmarks.workloads.lookup_input import in_memory
from endmark_benchmarks.workloads.stream_input import WINDOW_SECONDS, figures_of

_MICROS = WINDOW_SECONDS * 1_000_000
_LOADED = """
CREATE TABLE {side}_side AS SELECT k AS {side}_k, epoch_us(ts) AS {side}_us, v AS {side}_v, p AS {side}_p
FROM read_parquet(?)"""
_JOINED = f"""
SELECT {", ".join(figures_of("left_us", "right_us"))} FROM left_side JOIN right_side
ON left_k = right_k AND abs(left_us - right_us) <= {_MICROS}"""  # noqa: S608  # of constants


def main() -> None:
    task: dict[str, Any] = json.load(sys.stdin)
    with in_memory() as connection:
        connection.execute(f"SET threads = {CORES}")
        for side, stream in (("left", "a"), ("right", "b")):
            files = str(Path(task["directory"], stream, "*.parquet"))
            connection.execute(_LOADED.format(side=side), [files])
        started = time.monotonic()
        [given] = connection.execute(_JOINED).fetchall()
        seconds = time.monotonic() - started
    print(json.dumps({"given": given, "rate": 2 * task["files"] * task["rows"] / seconds}))


if __name__ == "__main__":
    main()
