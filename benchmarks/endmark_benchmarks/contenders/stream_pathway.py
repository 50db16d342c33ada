"""Pathway's interval join over recorded streams, run by the Python that has it; task and figures as of
`stream_run`.

Pathway's reader of files knows CSV but not Parquet, so it reads the rows as CSV.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from endmark_benchmarks.contenders.pathway_python import in_pathway
from endmark_benchmarks.workloads.stream_input import WINDOW_SECONDS, texts


def main() -> None:
    task: dict[str, Any] = json.load(sys.stdin)
    directories = [str(texts(Path(task["directory"]), stream)) for stream in ("a", "b")]
    asked = {"directories": directories, "window_seconds": WINDOW_SECONDS}
    [python] = task["python"]
    found = in_pathway(python, "endmark_benchmarks.contenders.pathway_stream", asked)
    rate = 2 * task["files"] * task["rows"] / found["seconds"]
    print(json.dumps({"given": found["given"], "rate": rate}))


if __name__ == "__main__":
    main()
