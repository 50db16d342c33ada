"""`endmark bench stream-join`: the stream join beside Spark's own and Flink's, on one recorded input.

Two streams with drifting keys, a window of ten seconds, all columns of both sides out. A rate is that of the
input after the first third: in Spark of whole batches, from trigger to commit.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from endmark.bench import stream_input
from endmark.bench.contest import DisagreementError, Rates, compared, in_process, interleaved, with_jars
from endmark.bench.report import origin
from endmark.errors import ConfigError
from endmark.parts.jars import flink_jars, spark_jars

if TYPE_CHECKING:
    from collections.abc import Callable

OURS = "endmark"
_SPARK, _FLINK = "endmark.bench.stream_run", "endmark.bench.stream_flink"
# By name, the module that runs it.
CONTENDERS = {
    "endmark": _SPARK,
    "spark-rocksdb": _SPARK,
    "spark-heap": _SPARK,
    "flink-heap": _FLINK,
    "flink-rocksdb": _FLINK,
    "duckdb": "endmark.bench.stream_duckdb",
}


@dataclass(frozen=True)
class Options:
    """What is measured.

    Args:
        files, rows: of each stream; a file has a second of event time, and so many rows.
        files_per_batch: of each stream.
        repeats: runs of each contender.
        contenders: by name; `OURS` is always among them.
        directory: of recorded input, which is made when it is not there.
    """

    files: int
    rows: int
    files_per_batch: int
    repeats: int
    contenders: tuple[str, ...]
    directory: Path

    def __post_init__(self) -> None:
        if unknown := [name for name in self.contenders if name not in CONTENDERS]:
            raise ConfigError(f"--contender: {unknown[0]!r} is not one of {', '.join(CONTENDERS)}")


def measure(options: Options, say: Callable[[str], None]) -> dict[str, Any]:
    """Run every contender, and report as JSON has values for it.

    Raises:
        EndmarkError: a part is missing, a contender failed, or two gave different results.
    """
    report = {"bench": "stream-join", **origin()}
    jars = [str(jar) for jar in spark_jars(say)]
    chosen = [name for name in CONTENDERS if name in (OURS, *options.contenders)]
    of_flink = [name for name, module in CONTENDERS.items() if module == _FLINK]
    contenders, more_jars = with_jars(chosen, of_flink, flink_jars, say)
    recorded = options.directory / f"streams-{options.files}x{options.rows}"
    if not recorded.exists():
        say(f"recording {options.files} files of {options.rows:,} rows for each stream in {recorded}")
        stream_input.record(recorded, options.files, options.rows)
    task = {
        "directory": str(recorded),
        "files": options.files,
        "rows": options.rows,
        "files_per_batch": options.files_per_batch,
        "jars": jars,
        "flink_jars": more_jars,
    }
    rates: dict[str, list[float]] = defaultdict(list)
    given: dict[str, list[int]] = {}
    for repeat, name in interleaved(contenders, options.repeats):
        [run] = in_process(CONTENDERS[name], {"contender": name, **task})
        given[name] = run["given"]
        _require_same(given)
        rates[name].append(run["rate"])
        say(f"{repeat + 1}: {name}: {run['rate']:,.0f} rows/s, {run['given'][0]:,} results")
    batch_rows = 2 * options.rows * options.files_per_batch
    report["options"] = {
        "files": options.files,
        "rows_per_file": options.rows,
        "batch_rows": batch_rows,
        "repeats": options.repeats,
        "results": given[OURS][0],
    }
    compare = compared({name: Rates.of(each) for name, each in rates.items()}, OURS)
    report["cells"] = [{"title": f"batches of {batch_rows:,} rows", "contenders": compare}]
    return report


def _require_same(given: dict[str, list[int]]) -> None:
    if any(each != given[OURS] for each in given.values()):
        said = ", ".join(f"{name} {each[0]:,} of digest {each[1:]}" for name, each in given.items())
        raise DisagreementError(f"contenders gave different results, so there is nothing to compare: {said}")
