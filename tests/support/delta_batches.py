"""The rows that each batch of a query has appended to a Delta table, by the table's own log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq


def rows_by_batch(table: Path) -> dict[int, list[dict[str, Any]]]:
    """Rows by the number of their batch; a batch that was appended twice is an error."""
    found: dict[int, list[dict[str, Any]]] = {}
    for commit in sorted((table / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        files = [table / unquote(each["add"]["path"]) for each in actions if "add" in each]
        for batch in (each["txn"]["version"] for each in actions if "txn" in each):
            assert batch not in found, f"batch {batch} of {table.name} was appended twice"
            found[batch] = [row for file in files for row in pq.read_table(file).to_pylist()]
    return found
