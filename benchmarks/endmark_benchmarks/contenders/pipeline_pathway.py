"""The auction pipeline in Pathway, run by the Python that has it; task and figures as of `pipeline_flink`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import endmark_benchmarks
from endmark.errors import EndmarkError
from endmark_benchmarks.contenders.query import CORES
from endmark_benchmarks.workloads.auction import sellers
from endmark_benchmarks.workloads.measured import Measured

PATHWAY = "pathway"


def main() -> None:
    task: dict[str, Any] = json.load(sys.stdin)
    servers = task["servers"]
    pipeline = Measured.of(task["measured"]).load(servers["relation_url"])
    file = Path(task["directory"], "sellers.json")
    file.write_text("".join(f"{json.dumps(row)}\n" for row in sellers(servers["relation_url"])))
    streams = {
        name: {
            "topic": stream.topic,
            "columns": {column: str(kind) for column, kind in stream.columns.items()},
            "time": stream.event_time.column,
        }
        for name, stream in pipeline.streams.items()
    }
    done = subprocess.run(
        [*task["python"], "-m", "endmark_benchmarks.contenders.pathway_auction"],
        input=json.dumps({"bootstrap": servers["bootstrap"], "sellers": str(file), "streams": streams}),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env=os.environ
        | {
            "PYTHONPATH": str(Path(endmark_benchmarks.__file__).parents[1]),
            "PATHWAY_THREADS": str(CORES),
        },
    )
    if done.returncode:
        raise EndmarkError(f"Pathway failed (exit code {done.returncode}); what it said is on stderr")
    [found] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    print(json.dumps({"given": [found["given"]], "rate": task["records"] / found["seconds"]}))


if __name__ == "__main__":
    main()
