"""A result meets its targets or not, and the page says which."""

from __future__ import annotations

from typing import Any

from endmark_benchmarks.page.targets import targets_table
from endmark_benchmarks.page.write import render


def cell(title: str, ratios: dict[str, float], **where: Any) -> dict[str, Any]:
    contenders = {name: {"median": 50_000.0, "ratio": ratio} for name, ratio in ratios.items()}
    return {"title": title, **where, "contenders": contenders}


def said(bench: str, report: dict[str, Any]) -> list[list[str]]:
    return [list(row[1:4]) for row in targets_table({bench: report}).rows]


def test_more_is_met_where_the_bar_is_the_least() -> None:
    cells = [cell("batches", {"endmark": 1, "spark-rocksdb": 15.0, "spark-heap": 7.99})]
    assert said("stream-join", {"options": {"rows_per_file": 100_000}, "cells": cells}) == [
        ["at least 15 times", "15.00 times", "yes"],
        ["at least 8 times", "7.99 times", "**no**"],
    ]


def test_small_batches_have_bars_of_their_own() -> None:
    cells = [cell("batches of 1,000 rows", {"endmark": 1, "spark-rocksdb": 2.0, "flink-heap": 9.0})]
    report = {"options": {"rows_per_file": 500}, "cells": cells}
    assert said("stream-join", report) == [["at least 2 times", "2.00 times", "yes"]]


def test_less_is_met_where_the_bar_is_the_most() -> None:
    low = {"share": 10.0, "seconds": {"p50": 0.7, "p99": 1.6}}
    half = {"share": 50.0, "seconds": {"p50": 1.5, "p99": 4.1}}
    assert said("latency", {"loads": [low, half, {"share": 80.0, "seconds": {}}]}) == [
        ["at most 0.7 s", "0.70 s", "yes"],
        ["at most 1.5 s", "1.60 s", "**no**"],
        ["at most 1.5 s", "1.50 s", "yes"],
        ["at most 4 s", "4.10 s", "**no**"],
    ]


def test_the_bar_hangs_on_the_keys_and_on_the_distance() -> None:
    ratios = {"flink-lookup": 7.0, "flink-lookup-cached": 5.0, "memory": 0.3}
    cells = [
        cell("near", ratios, keys=keys, delay_ms=delay)
        for keys, delay in (("uniform", 0.0), ("zipf", 0.0), ("zipf", 2.0))
    ]
    assert [(bar, met) for bar, _, met in said("lookup-join", {"cells": cells})] == [
        ("at least 6 times", "yes"),
        ("at least 6 times", "**no**"),
        ("at least 0.9 times", "**no**"),
        ("at least 6 times", "yes"),
        ("at least 4 times", "yes"),
        ("at least 0.9 times", "**no**"),
        ("at least 10 times", "**no**"),
    ]


def test_connections_are_held_against_none() -> None:
    """The ratio of a report is that of the plain job over this one, and the bar is on its inverse."""
    ratios = {"endmark": 1, "tls-and-login": 1.25, "avro": 0.8, "s3": 1.25}

    assert said("connections", {"cells": [cell("records", ratios)]}) == [
        ["at least 0.85 times", "0.80 times", "**no**"],
        ["at least 1 times", "1.25 times", "yes"],
        ["at least 0.8 times", "0.80 times", "yes"],
    ]


def test_one_operator_is_held_against_a_chain() -> None:
    operators = {
        "one operator": {"rows_a_second": 3e6, "most_bytes": 30},
        "chain of two": {"rows_a_second": 2e6, "most_bytes": 40},
    }
    ratios = {"endmark": 1.0, "spark-rocksdb": 4.0, "spark-heap": 0.9}

    assert said("nary-join", {"workloads": {"two of each": operators}}) == [
        ["at least 1 times", "1.50 times", "yes"],
        ["at most 1 times", "0.75 times", "yes"],
    ]
    assert said("three-streams", {"cells": [cell("three streams", ratios)]}) == [
        ["at least 1 times", "4.00 times", "yes"],
        ["at least 1 times", "0.90 times", "**no**"],
    ]


def test_whole_jobs_have_targets() -> None:
    ratios = {"endmark": 1, "spark": 9.5, "flink-counting": 1.5, "flink-files": 2.4, "duckdb": 0.1}
    pipeline = {"cells": [cell("records", ratios)]}
    runs = {"start": [{"a": 1, "b": 5}, {"a": 2, "b": 7}], "kill -9": [{"a": 10, "b": 11}]}

    assert said("pipeline", pipeline) == [
        ["at least 200 thousand records/s", "50.00 thousand records/s", "**no**"],
        ["at least 10 times", "9.50 times", "**no**"],
        ["at least 1.5 times", "1.50 times", "yes"],
        ["at least 2.5 times", "2.40 times", "**no**"],
    ]
    assert said("recovery", {"runs": runs}) == [
        ["at most 8 s", "7.50 s", "yes"],
        ["at most 8 s", "21.00 s", "**no**"],
    ]
    rates = {"alone": {"median": 80_000.0}, "asked": {"median": 75_000.0}}
    sidecar = {"options": {"requests": 200.0}, "cells": [{"contenders": rates}]}
    assert said("sidecar", sidecar) == [
        ["at most 5 % of the job's rate", "6.25 % of the job's rate", "**no**"]
    ]


def test_state_has_targets() -> None:
    windows = [
        {"live_rows": live, "batch_seconds": {"median": seconds}} for live, seconds in ((1, 0.5), (9, 0.6))
    ]
    live = [
        {"live rows": rows, "us a closing": us, "durable bytes a row": 20.5}
        for rows, us in ((100_000, 1.0), (10_000_000, 2.5))
    ]
    scenarios = {
        "live rows": live,
        "an interval": [{"ms": 51.0}],
        "purging at once": [{"eager / lazy": 1.05}],
        "closing nothing": [{"with / without": 0.9}],
    }
    extremes = {"scenarios": {name: {"figures": figures} for name, figures in scenarios.items()}}

    assert said("live-state", {"windows": windows}) == [["at most 1.3 times", "1.20 times", "yes"]]
    assert said("extremes", extremes) == [
        ["at most 2 us", "1.00 to 2.50 us", "**1 of 2**"],
        ["at most 76 bytes", "20.50 bytes", "yes"],
        ["at most 50 ms", "51.00 ms", "**no**"],
        ["at most 1.1 times", "1.05 times", "yes"],
        ["at least 0.97 times", "0.90 times", "**no**"],
    ]


def test_a_map_has_a_line_for_all_of_its_cells() -> None:
    place = {"relation_rows": 5, "delay": 0.0, "exponent": 1.0}
    rates = {
        (0, "auto"): 90.0,
        (0, "mesh"): 100.0,
        (0, "memory"): 900.0,
        (50, "auto"): 120.0,
        (50, "mesh"): 100.0,
    }
    runs = [
        {**place, "waits": waits, "strategy": name, "rate": rate} for (waits, name), rate in rates.items()
    ]
    assert said("lookup-map", {"runs": runs}) == [["at least 0.85 times", "0.90 to 1.20 times", "yes"]]


def test_a_prediction_is_off_in_either_direction() -> None:
    seconds = ((1.0, 1.0), (1.1, 1.0), (0.8, 1.0))
    loops = [
        {"strategy": "mesh", "predicted_seconds": predicted, "measured_seconds": measured}
        for predicted, measured in seconds
    ]
    assert said("costs", {"loops": loops}) == [
        ["at most 15 %", "10.00 %", "yes"],
        ["at most 15 %", "20.00 %", "**no**"],
    ]


def test_the_papers_operators_have_targets() -> None:
    window_state = [{"window_seconds": 5.0, "saved_percent": {"mean": 43.3}}]
    pages = [
        {"pages": "aligned", "counted": {"mean": 15.0}, "meshjoin": 7.5},
        {"pages": "sliding", "counted": {"mean": 8.0}, "meshjoin": 7.5},
    ]
    assert said("operators", {"window_state": window_state, "pages": pages}) == [
        ["at least 45 %", "43.30 %", "**no**"],
        ["at least 2 times", "2.00 times", "yes"],
    ]


def test_the_page_has_them_only_of_results_that_are_kept() -> None:
    page = "<!-- begin targets -->\nold\n<!-- end -->\n"
    kept = {"latency": {"bench": "latency", "loads": []}}
    assert render(page, {}) == "<!-- begin targets -->\nNo result is kept.\n<!-- end -->\n"
    assert targets_table(kept).rows == []


def test_parts_of_a_bench_have_lines_of_their_own() -> None:
    """A file beside the bench's own, with another name."""
    parts = {
        section: {
            "bench": "lookup-map",
            "runs": [
                {"relation_rows": rows, "delay": 0.0, "waits": 0, "exponent": 0.0} | run
                for run in ({"strategy": "auto", "rate": rate}, {"strategy": "mesh", "rate": 100.0})
            ],
        }
        for section, rows, rate in (("lookup-map", 500, 90.0), ("lookup-map-large", 9_000, 80.0))
    }
    rows = targets_table(parts).rows
    assert [row[2:4] for row in rows] == [["0.90 times", "yes"], ["0.80 times", "**no**"]]
    assert "R of 500 rows" in rows[0][0]
    assert "R of 9,000 rows" in rows[1][0]
