"""The auction pipeline in Pathway, run by the Python that has it; task and figures as of `pipeline_flink`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from endmark_benchmarks.contenders.pathway_python import in_pathway
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
    asked = {"bootstrap": servers["bootstrap"], "sellers": str(file), "streams": streams}
    [python] = task["python"]
    found = in_pathway(python, "endmark_benchmarks.contenders.pathway_auction", asked)
    print(json.dumps({"given": [found["given"]], "rate": task["records"] / found["seconds"]}))


if __name__ == "__main__":
    main()
