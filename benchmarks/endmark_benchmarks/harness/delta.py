"""The contents of a run's tables, read from outside with DuckDB."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from deltalake import DeltaTable

from endmark_benchmarks.harness.contest import Digest
from endmark_benchmarks.workloads.lookup_input import in_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.pipeline import Pipeline

# A group may be there in parts, one for each batch that had results of it.
_GROUPS = (
    "SELECT item_id, sum(bids)::BIGINT AS bids, max(highest_bid) AS highest_bid FROM {} GROUP BY item_id"
)
_HALVES = "count(*), coalesce(sum({code} >> 32), 0), coalesce(sum({code} & 4294967295), 0)"


def digests(pipeline: Pipeline, warehouse: Path, figures: Sequence[str] = ()) -> list[Digest]:
    """Return the digests of a pipeline's results and, if it has groups, that of the auction's groups.

    Args:
        pipeline: the pipeline.
        warehouse: the place of its tables.
        figures: as for `result_digests`.
    """
    tables = pipeline.outputs.directories
    found = result_digests(pipeline, _files(warehouse / tables["results"]), figures)
    for groups in pipeline.groups:
        if groups.final_role in tables:
            files = _files(warehouse / tables[groups.final_role])
            found.append(_digest(files, _GROUPS, _hashed(list(groups.columns()))))
    return found


def result_digests(pipeline: Pipeline, files: list[str], figures: Sequence[str] = ()) -> list[Digest]:
    """Return the digest of results by `figures`, if there are any, and then by hashes of all columns.

    Args:
        pipeline: the pipeline whose results they are.
        files: paths of Parquet files.
        figures: SQL of the count and of two sums over the results, which other engines compute, too.
    """
    columns = list(pipeline.result_columns())
    ways = ([", ".join(figures)] if figures else []) + [_hashed(columns)]
    return [_digest(files, "SELECT * FROM {}", way) for way in ways]


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


def _files(table: Path) -> list[str]:
    return DeltaTable(str(table)).file_uris()


def _hashed(columns: list[str]) -> str:
    return _HALVES.format(code=f"hash({', '.join(columns)})")


def _digest(files: list[str], rows: str, figures: str) -> Digest:
    if not files:
        return Digest(0, 0, 0)
    statement = f"SELECT {figures} FROM ({rows.format('read_parquet($files)')})"  # noqa: S608  # of constants
    with in_memory() as connection:
        [found] = connection.execute(statement, {"files": files}).fetchall()
    return Digest(*map(int, found))
