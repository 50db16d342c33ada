"""Digests of recorded answers by file, in a process of its own; as `lookup_run`, but for directories."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from endmark.bench import query
from endmark.bench.lookup_input import ANSWERS_DDL


def main() -> None:
    task: dict[str, Any] = json.load(sys.stdin)
    spark = query.session(task["contender"], task["jars"], driver_memory="2g")
    try:
        for directory in task["directories"]:
            print(json.dumps({"digests": query.digests_by_file(spark, Path(directory), ANSWERS_DDL)}))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
