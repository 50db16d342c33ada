"""The page of reliability has a row for each fault of processes, from a result file."""

from __future__ import annotations

import json

from processes.campaign import END
from processes.faults import FAULTS
from processes.page import PAGE, RESULT, render


def test_the_page_is_that_of_the_kept_result() -> None:
    report = json.loads(RESULT.read_text())

    assert render(PAGE.read_text(), report) == PAGE.read_text()
    runs = [run for part in report["parts"] for run in part["runs"]]
    assert {run["fault"] for run in runs} <= {*FAULTS, END}
    assert [run for run in runs if run["outcome"]["wrong"]] == []
