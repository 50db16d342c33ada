"""The shares of a job's batches that are spent on each kind of work, as the job itself reports."""

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
    """Percent of wall-clock time: `tasks`, which write files, too; `tables`, the commits of these, with what
    Spark does to begin a batch; what Spark does around them by its phases; the rest.
    """
    sums = add(batches)
    whole = sums[_WHOLE]
    parts = {"tasks": sums[_TASKS], "tables": sums[_SINK] - sums[_TASKS]}
    for key, seconds in sums.items():
        name, labels = parse(key)
        if name == "batch_seconds" and key not in (_WHOLE, _SINK):
            parts[labels["phase"]] = seconds
    return _percent(parts, whole)


def python_shares(batches: Iterable[Samples]) -> dict[str, float]:
    """Percent of the time of all cores, by the phases of endmark's Python; the rest is Spark's, or idle."""
    sums = add(batches)
    parts = {
        parse(key)[1]["phase"]: seconds
        for key, seconds in sums.items()
        if parse(key)[0] == "profile_seconds_total"
    }
    return _percent(parts, CORES * sums[_WHOLE])


def _percent(parts: dict[str, float], whole: float) -> dict[str, float]:
    found = sorted(parts.items(), key=lambda part: -part[1])
    found.append(("rest", whole - sum(parts.values())))
    return {name: round(100 * seconds / whole, 1) for name, seconds in found}
