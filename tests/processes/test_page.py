"""The page of reliability has a row for each fault of processes, from a result file."""

from __future__ import annotations

import json

from processes.campaign import END, WALK
from processes.faults import FAULTS
from processes.page import PAGE, RESULT, SOAK, render


def test_the_page_is_that_of_the_kept_result() -> None:
    report, soaked = (json.loads(file.read_text()) for file in (RESULT, SOAK))

    assert render(PAGE.read_text(), report, soaked) == PAGE.read_text()
    assert [part["wrong"] for part in soaked["parts"]] == [[]]
    runs = [run for part in report["parts"] for run in part["runs"]]
    assert {run["fault"] for run in runs} <= {*FAULTS, END, WALK}
    wrong = [(run["fault"], run["pipeline"], run["seed"]) for run in runs if run["outcome"]["wrong"]]
    assert wrong == [("broker's replies: swallow", "auction", 22)]  # as the page tells above the table
