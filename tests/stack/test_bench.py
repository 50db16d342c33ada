"""The benchmark `lookup-map` at a small size: its report, and that wrong answers end it."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest

from endmark_benchmarks.harness.contest import DisagreementError
from endmark_benchmarks.measurements import lookup_map
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
    """As if R were not what DuckDB takes it for."""
    right = lookup_input.made(2_000)
    price = right.schema.get_field_index("price")
    wrong = right.set_column(price, "price", pc.add(right["price"], 1.0))
    monkeypatch.setattr(lookup_map, "BATCH_ROWS", 1_000)
    monkeypatch.setattr(lookup_input, "made", lambda _: wrong)

    with pytest.raises(DisagreementError, match="strategy='auto'"):
        lookup_map.measure_map(SMALL_MAP, print)
