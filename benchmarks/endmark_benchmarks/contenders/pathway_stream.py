"""Pathway's interval join over recorded streams, in a process of the Python that has it.

The module reads a task as JSON from standard input: the directory of each stream's files.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from endmark_benchmarks.contenders.pathway_answers import answer, code

_COLUMNS = {"k": int, "us": int, "v": int, "p": str}


def main() -> None:
    import pathway as pw  # endmark's own environment does not have it

    task: dict[str, Any] = json.load(sys.stdin)
    schema = pw.schema_from_types(**_COLUMNS)
    left, right = (pw.io.csv.read(place, schema=schema, mode="static") for place in task["directories"])
    near = task["window_seconds"] * 1_000_000
    joined = left.interval_join(
        right, left.us, right.us, pw.temporal.interval(-near, near), left.k == right.k
    )
    sides = {"left": left, "right": right}
    columns = {f"{side}_{name}": of[name] for side, of in sides.items() for name in _COLUMNS}
    row = pw.this
    answer(
        pw,
        joined.select(**columns),
        code(row.left_v, row.left_us, row.left_k, row.left_p.str.parse_int()),
        code(row.right_v, row.right_us, row.right_k, row.right_p.str.parse_int()),
    )


if __name__ == "__main__":
    main()
