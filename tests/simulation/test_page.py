"""The page of reliability has a row for each kind of fault, from a result file."""

from __future__ import annotations

import json

from simulation.faults import KINDS
from simulation.noise import NOISE
from simulation.page import PAGE, RESULT, render

REPORT = {
    "commit": "abc",
    "date": "2026-11-27",
    "machine": {"cores": 2, "load": 0.5},
    "seeds": 1000,
    "first_seed": 7,
    "batches": 5000,
    "records": 60000,
    "seeds_per_minute": 90,
    "faults": {"kill: planned": 40, "twin": 12},
    "runs": {"kill: planned": 30, "twin": 6},
    "failed": {"twin": 1},
    "lost": {"twin": 3},
    "doubled": {},
    "failures": {"8": "rows are missing"},
}


def test_a_row_tells_what_a_fault_has_done_in_all_campaigns() -> None:
    further = REPORT | {"first_seed": 1007, "failures": {}, "failed": {}, "lost": {}}
    page = render("<!-- begin simulation -->\nold\n<!-- end -->\n", {"parts": [REPORT, further]})

    lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if "|" in line
    ]
    rows = {line[0]: line[2:] for line in lines}
    assert "1,000 seeds from 7 on, 999 of them right" in page
    assert "1,000 seeds from 1,007 on, 1,000 of them right" in page
    assert rows["kill: planned"] == ["80", "60", "60", "0", "0", "5.00 %"]
    assert rows["twin"] == ["24", "12", "11", "3", "0", "–"]  # noqa: RUF001
    assert rows["torn file"] == ["0", "0", "0", "0", "0", "–"]  # noqa: RUF001
    assert rows.keys() >= {*KINDS, *NOISE}


def test_the_page_is_that_of_the_kept_result() -> None:
    assert render(PAGE.read_text(), json.loads(RESULT.read_text())) == PAGE.read_text()
