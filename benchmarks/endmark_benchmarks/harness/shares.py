"""The time that a job's batches spend on each kind of work, as the job itself reports, and shares of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.metrics import Samples, add, parse, sample
from endmark_benchmarks.contenders.query import CORES

if TYPE_CHECKING:
    from collections.abc import Iterable

_WHOLE = sample("batch_seconds", phase="total")
_TASKS = sample("compute_seconds")
_SINK = sample("batch_seconds", phase="compute_and_write")


def wall_shares(batches: Iterable[Samples]) -> dict[str, float]:
    """Percent of wall-clock time, by the phases of `wall_seconds`; the rest is of none."""
    sums = add(batches)
    return _percent(_wall(sums), sums[_WHOLE])


def python_shares(batches: Iterable[Samples]) -> dict[str, float]:
    """Percent of the time of all cores, by the phases of endmark's Python; the rest is Spark's, or idle."""
    sums = add(batches)
    return _percent(_python(sums), CORES * sums[_WHOLE])


def wall_seconds(batches: Iterable[Samples], records: float) -> dict[str, float]:
    """Seconds of wall-clock time for a million records, the most first.

    `tasks` are Spark's tasks, which write files, too. `tables` are the commits of these, with what Spark does
    to begin a batch. The other phases are what Spark does around them.

    Args:
        batches: the samples of batches.
        records: the records that they read.
    """
    return _for_a_million(_wall(add(batches)), records)


def python_seconds(batches: Iterable[Samples], records: float) -> dict[str, float]:
    """Core seconds for a million records by the phases of endmark's Python; otherwise as `wall_seconds`."""
    return _for_a_million(_python(add(batches)), records)


def _wall(sums: Samples) -> dict[str, float]:
    parts = {"tasks": sums[_TASKS], "tables": sums[_SINK] - sums[_TASKS]}
    for key, seconds in sums.items():
        name, labels = parse(key)
        if name == "batch_seconds" and key not in (_WHOLE, _SINK):
            parts[labels["phase"]] = seconds
    return parts


def _python(sums: Samples) -> dict[str, float]:
    return {
        parse(key)[1]["phase"]: seconds
        for key, seconds in sums.items()
        if parse(key)[0] == "profile_seconds_total"
    }


def _for_a_million(parts: dict[str, float], records: float) -> dict[str, float]:
    found = sorted(parts.items(), key=lambda part: -part[1])
    return {name: round(1e6 * seconds / records, 3) for name, seconds in found}


def _percent(parts: dict[str, float], whole: float) -> dict[str, float]:
    found = sorted(parts.items(), key=lambda part: -part[1])
    found.append(("rest", whole - sum(parts.values())))
    return {name: round(100 * seconds / whole, 1) for name, seconds in found}
