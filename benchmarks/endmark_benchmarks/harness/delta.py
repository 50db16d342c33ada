"""The contents of a run's Delta tables, read from outside with DuckDB."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from deltalake import DeltaTable

from endmark_benchmarks.harness.contest import Digest
from endmark_benchmarks.workloads.lookup_input import in_memory

if TYPE_CHECKING:
    from endmark.pipeline import Pipeline

# A group may be there in parts, one for each batch that had results of it.
_GROUPS = (
    "SELECT item_id, sum(bids)::BIGINT AS bids, max(highest_bid) AS highest_bid FROM {} GROUP BY item_id"
)
_DIGEST = """
SELECT count(*), coalesce(sum(code >> 32), 0), coalesce(sum(code & 4294967295), 0)
FROM (SELECT hash({columns}) AS code FROM ({rows}))
"""


def digests(pipeline: Pipeline, warehouse: Path) -> list[Digest]:
    """Return the digest of a pipeline's results and, if it has groups, of the auction's groups."""
    tables = pipeline.directories
    found = [_digest(warehouse / tables["results"], "SELECT * FROM {}", list(pipeline.result_columns()))]
    if "groups" in tables:
        found.append(_digest(warehouse / tables["groups"], _GROUPS, list(pipeline.group_columns())))
    return found


class Commit(NamedTuple):
    """A version of a table: when it became visible, in Unix seconds, and the data files that came with it."""

    time: float
    files: list[Path]


def commits(table: Path) -> list[Commit]:
    """All versions of a table, the oldest first."""
    found = []
    for log in sorted((table / "_delta_log").glob("*[0-9].json")):
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        added = [table / unquote(action["add"]["path"]) for action in actions if "add" in action]
        found.append(Commit(log.stat().st_mtime, added))
    return found


def _digest(table: Path, rows: str, columns: list[str]) -> Digest:
    files = DeltaTable(str(table)).file_uris()
    if not files:
        return Digest(0, 0, 0)
    statement = _DIGEST.format(columns=", ".join(columns), rows=rows.format("read_parquet($files)"))
    with in_memory() as connection:
        [found] = connection.execute(statement, {"files": files}).fetchall()
    return Digest(*map(int, found))
