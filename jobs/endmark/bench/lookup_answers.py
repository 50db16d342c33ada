"""Digests of recorded answers, in a process of its own; as `lookup_run`, but for files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from endmark.bench import query


def main() -> None:
    task: dict[str, Any] = json.load(sys.stdin)
    spark = query.session(task["contender"], task["jars"], driver_memory="2g")
    try:
        for file in task["files"]:
            print(json.dumps({"digests": query.digests(spark, Path(file), task["each"])}))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
