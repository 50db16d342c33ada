"""Benchmarks of the lookup's strategies at a small size: their reports, and that wrong answers end them."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pyarrow.compute as pc
import pytest

from endmark_benchmarks.harness.contest import DisagreementError
from endmark_benchmarks.measurements import hybridjoin_rates, lookup_map
from endmark_benchmarks.workloads import lookup_input

SMALL_MAP = lookup_map.LookupMapOptions(
    rows=(2_000,),
    exponents=(0.0, 1.0),
    delays=(0.0,),
    memories=(1,),
    driver="pymysql",
    seconds=0.0,
    repeats=1,
)


def test_every_strategy_is_in_every_cell_of_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup_map, "BATCH_ROWS", 1_000)
    monkeypatch.setattr(lookup_map, "PAGE_ROWS", 5)  # so that a read leaves rows waiting
    said: list[str] = []

    report = lookup_map.measure_map(SMALL_MAP, said.append)

    at_once = [("memory", 0), *((name, 0) for name in lookup_map.AT_ONCE)]
    waiting = [(name, 1) for name in lookup_map.WAITING]
    runs = [(run["exponent"], run["strategy"], run["waits"]) for run in report["runs"]]
    assert runs == [(exponent, *each) for exponent in (0.0, 1.0) for each in at_once + waiting]
    # In so short a time none of those that wait need have answered any.
    assert all(run["rate"] > 0 for run in report["runs"] if not run["waits"])
    assert len(said) == 1 + 2  # R is made, and there are two cells
    assert "MariaDB" in report["versions"]["mariadb"]


def test_other_answers_than_duckdbs_end_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine looks up in another R than DuckDB, so the bench refuses to compare."""
    right = lookup_input.made(2_000)
    price = right.schema.get_field_index("price")
    wrong = right.set_column(price, "price", pc.add(right["price"], 1.0))
    monkeypatch.setattr(lookup_map, "BATCH_ROWS", 1_000)
    monkeypatch.setattr(lookup_input, "made", lambda _: wrong)

    with pytest.raises(DisagreementError, match="strategy='auto'"):
        lookup_map.measure_map(SMALL_MAP, print)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (hybridjoin_rates, lookup_map):
        monkeypatch.setattr(module, "BATCH_ROWS", 1_000)
        monkeypatch.setattr(module, "SINGLE_ROWS", 10)
    monkeypatch.setattr(hybridjoin_rates, "PAGE_ROWS", 5)


@pytest.mark.usefixtures("small_batches")
def test_hybridjoin_and_meshjoin_are_measured_part_by_part(tmp_path: Path) -> None:
    """All gave DuckDB's answers, or there would be no report. A row of MESHJOIN stays for a whole cycle."""
    results = tmp_path / "hybridjoin_rates.json"
    for exponent in (1.0, 0.0):
        hybridjoin_rates.main([2_000], [1], [exponent], seconds=0.0, repeats=2, results=results)

    cells = json.loads(results.read_text())["cells"]
    kinds = [(cell["exponent"], cell["layout"]) for cell in cells]
    assert kinds == [(0.0, "sorted"), (1.0, "scattered"), (1.0, "sorted")]
    for cell in cells:
        found = cell["contenders"]
        assert tuple(found) == hybridjoin_rates.CONTENDERS
        assert all(len(each["rates"]) == 2 and min(each["rates"]) > 0 for each in found.values())
        assert [name for name, each in found.items() if each["predicted"] is None] == ["best_page"]
        rows = {name: statistics.mean(each["rows_per_read"]) for name, each in found.items()}
        assert rows["hybrid"] > 1.3 * rows["meshjoin"]


def test_parts_of_one_commit_make_one_report() -> None:
    """Results of earlier parts make the tree differ from its commit."""
    first, second = (
        {"relation_rows": 1, "memory": size, "exponent": 0.0, "layout": "sorted"} for size in (1, 2)
    )
    earlier = {"commit": "abc", "cells": [second, first | {"contenders": {}}]}

    found = hybridjoin_rates.merged(earlier, {"commit": "abc+", "cells": [first]})

    assert found == {"commit": "abc", "cells": [first, second]}
    other = {"commit": "abd", "cells": [first]}
    assert hybridjoin_rates.merged(earlier, other) == other


@pytest.mark.usefixtures("small_batches")
def test_other_answers_than_duckdbs_end_the_measurement(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    right = lookup_input.made(2_000)
    monkeypatch.setattr(lookup_input, "made", lambda _: right.slice(1))

    with pytest.raises(DisagreementError, match="hybrid"):
        hybridjoin_rates.main(
            [2_000], [1], [0.0], seconds=0.0, repeats=1, results=tmp_path / "hybridjoin_rates.json"
        )


def test_the_points_are_the_papers_unless_sizes_are_named() -> None:
    """Without skew both layouts are one."""
    layouts = ["sorted", "scattered"]
    assert len(hybridjoin_rates.points([], [], [0.0, 0.5, 1.0], layouts)) == 9 * 5
    assert hybridjoin_rates.points([], [100], [0.0], layouts) == [
        hybridjoin_rates.Point(2_000_000, 100, 0.0, "sorted")
    ]
