"""The cost model of the stream join's state beside the engine: `make bench-state-model`.

Counts, which are the same on every machine; writes them and a table of docs/state.md. A run takes seconds,
all of them some minutes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import typer

from endmark.operators.stream_join.presets import PRESETS
from endmark_benchmarks.measurements.state_bounds import PAGE
from endmark_papers.experiments.marked_parts import fill
from endmark_papers.experiments.report import Table
from support.state_model import Comparison, Setting, compare

RESULTS = Path(__file__).parents[2] / "results" / "stream_join_model.json"
ROWS, BATCH = 60_000, 500
INTERVALS = (10, 100, 1000)
WINDOWS = (1, 5, 15, 60)
LAZY = 10  # punctuations that wait for a purge


def settings() -> Iterator[Setting]:
    """Every preset with each window, and lazy purging too, where it has these."""
    for interval in INTERVALS:  # streams are made once for all joins of them
        for preset, able in PRESETS.items():
            every = (1, LAZY) if able.batch else (1,)
            for purge_every, window in product(every, WINDOWS if able.window else (None,)):
                yield Setting(preset, interval, window, purge_every)


def measure(rows: int = ROWS, batch: int = BATCH) -> list[dict[str, Any]]:
    """Measure every setting, as values for JSON.

    Args:
        rows: rows of each stream.
        batch: elements of a batch.
    """
    return [asdict(setting) | _figures(compare(setting, rows, batch)) for setting in settings()]


def _figures(found: Comparison) -> dict[str, Any]:
    measured, predicted = found.measured, found.predicted
    announces = measured.announced_after is not None
    return {
        "rows": measured.rows,
        "predicted_rows": predicted.rows,
        "paper_rows": found.paper,
        "purged_a_second": measured.purged,
        "predicted_purged_a_second": predicted.left.purged + predicted.right.purged,
        "announced_after": measured.announced_after,
        "predicted_announced_after": predicted.announced_after if announces else None,
    }


def render(page: str, figures: list[dict[str, Any]]) -> str:
    """The page with its table written anew."""
    joins = list(dict.fromkeys(_join(each) for each in figures))
    rows = []
    for join in joins:
        those = [each for each in figures if _join(each) == join]
        rows.append(
            [
                *join,
                *(f"{each['rows']:,.0f}" for each in those),
                _each(those, lambda each: each["predicted_rows"]),
                _each(those, lambda each: each["paper_rows"]),
            ]
        )
    intervals = [f"{interval:,}" for interval in INTERVALS]
    headings = (
        "preset",
        "window",
        "purge every",
        *(f"rows at {each}" for each in intervals),
        "model",
        "Eq 1",
    )
    model = Table("", headings, rows).markdown()
    return fill(page, lambda name: model if name == "model" else None)


def _join(each: dict[str, Any]) -> tuple[str, str, str]:
    window = "none" if each["window"] is None else f"{each['window']} s"
    return each["preset"], window, str(each["purge_every"])


def _each(those: list[dict[str, Any]], value: Callable[[dict[str, Any]], float | None]) -> str:
    """The deviation of an estimate in each of some settings."""
    found = [(estimate, each["rows"]) for each in those if (estimate := value(each)) is not None]
    return ", ".join(f"{round(estimate / rows - 1, 2) + 0.0:+.0%}" for estimate, rows in found) or "-"


def main() -> None:
    """Measure, and write the result file and the page."""
    figures = measure()
    RESULTS.write_text(json.dumps(figures, indent=1) + "\n")
    PAGE.write_text(render(PAGE.read_text(), figures))


if __name__ == "__main__":
    typer.run(main)
