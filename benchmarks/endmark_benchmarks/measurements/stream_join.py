"""`python -m endmark_benchmarks stream-join`: the stream join beside Spark's own, Flink's and Pathway's.

Two streams with drifting keys, a window of ten seconds, all columns of both sides out. A rate is that of the
input after the first third: in Spark of whole batches, from trigger to commit.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from endmark.spark.processes.class_archive import local_jars
from endmark_benchmarks.contenders.jars import flink_jars
from endmark_benchmarks.contenders.pathway_python import pathway_python
from endmark_benchmarks.contenders.pipeline_pathway import PATHWAY
from endmark_benchmarks.harness.contest import (
    DisagreementError,
    Rates,
    compared,
    in_process,
    interleaved,
    require_known,
    with_parts,
)
from endmark_benchmarks.harness.origin import origin
from endmark_benchmarks.workloads import stream_input

if TYPE_CHECKING:
    from collections.abc import Callable

OURS = "endmark"
_SPARK, _FLINK = "endmark_benchmarks.contenders.stream_run", "endmark_benchmarks.contenders.stream_flink"
# By name, the module that runs it.
CONTENDERS = {
    "endmark": _SPARK,
    "spark-rocksdb": _SPARK,
    "spark-heap": _SPARK,
    "flink-heap": _FLINK,
    "flink-rocksdb": _FLINK,
    PATHWAY: "endmark_benchmarks.contenders.stream_pathway",
    "duckdb": "endmark_benchmarks.contenders.stream_duckdb",
}


@dataclass(frozen=True)
class StreamJoinOptions:
    """The options of the measurement.

    Args:
        files, rows: of each stream; a file has a second of event time, and so many rows.
        files_per_batch: of each stream, in one or more sizes.
        repeats: runs of each contender.
        contenders: by name; `OURS` is always among them.
        directory: of recorded input, which is made when it is not there.
    """

    files: int
    rows: int
    files_per_batch: tuple[int, ...]
    repeats: int
    contenders: tuple[str, ...]
    directory: Path

    def __post_init__(self) -> None:
        require_known("contender", self.contenders, CONTENDERS)


def measure(options: StreamJoinOptions, say: Callable[[str], None]) -> dict[str, Any]:
    """Run every contender, and report as JSON has values for it.

    Raises:
        EndmarkError: a part is missing, a contender failed, or two gave different results.
    """
    report = {"bench": "stream-join", **origin()}
    jars = [str(jar) for jar in local_jars(say)]
    chosen = [name for name in CONTENDERS if name in (OURS, *options.contenders)]
    of_flink = [name for name, module in CONTENDERS.items() if module == _FLINK]
    contenders, more_jars = with_parts(chosen, of_flink, flink_jars, say)
    contenders, python = with_parts(contenders, [PATHWAY], pathway_python, say)
    task = {
        "directory": str(stream_input.recorded(options.directory, options.files, options.rows, say)),
        "files": options.files,
        "rows": options.rows,
        "jars": jars,
        "flink_jars": more_jars,
        "python": python,
    }
    sizes = options.files_per_batch
    turns = [(name, size) for size in sizes for name in contenders if _differs(name, size, options)]
    rates: dict[tuple[str, int], list[float]] = defaultdict(list)
    given: dict[str, list[int]] = {}
    for repeat, (name, size) in interleaved(turns, options.repeats):
        [run] = in_process(CONTENDERS[name], {"contender": name, "files_per_batch": size, **task})
        given[name] = run["given"]
        _require_same(given)
        rates[name, size].append(run["rate"])
        say(f"{repeat + 1}: {name}, {size} files: {run['rate']:,.0f} rows/s, {run['given'][0]:,} results")
    report["options"] = {
        "files": options.files,
        "rows_per_file": options.rows,
        "repeats": options.repeats,
        "results": given[OURS][0],
    }
    report["cells"] = [_cell(size, contenders, rates, options) for size in sizes]
    return report


def _differs(name: str, size: int, options: StreamJoinOptions) -> bool:
    """Return whether the contender has batches, so that each size of them is a run of its own."""
    return CONTENDERS[name] == _SPARK or size == options.files_per_batch[0]


def _cell(
    size: int, contenders: list[str], rates: dict[tuple[str, int], list[float]], options: StreamJoinOptions
) -> dict[str, Any]:
    first = options.files_per_batch[0]
    found = {name: rates[name, size if _differs(name, size, options) else first] for name in contenders}
    compare = compared({name: Rates.of(each) for name, each in found.items()}, OURS)
    return {"title": f"batches of {2 * options.rows * size:,} rows", "contenders": compare}


def _require_same(given: dict[str, list[int]]) -> None:
    if any(each != given[OURS] for each in given.values()):
        said = ", ".join(f"{name} {each[0]:,} of digest {each[1:]}" for name, each in given.items())
        raise DisagreementError(f"contenders gave different results, so there is nothing to compare: {said}")
