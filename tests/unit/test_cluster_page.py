"""docs/cluster.md shows what the runs have kept."""

from __future__ import annotations

from support.cluster_page import FAULTS, PAGE, SCALE_OUT, read, render


def test_the_page_is_written_from_the_results() -> None:
    reports = read()
    assert reports.keys() == {*FAULTS, SCALE_OUT}
    page = PAGE.read_text()

    assert render(page, reports) == page, "run make test-compose, test-cluster or bench-cluster"
    for name in reports:
        assert f"<!-- begin {name} -->" in page
        for each in reports[name].get("faults", ()):
            assert f"| {each['taken']} | {each['seconds']} | {each['seen']} |" in page
        for each in reports[name].get("cells", ()):
            assert f"| {each['rate']:,.0f} |" in page
