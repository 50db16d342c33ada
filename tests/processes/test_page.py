"""The page of reliability has a row for each fault of processes, from a result file."""

from __future__ import annotations

import json

from processes.campaign import END
from processes.faults import FAULTS
from processes.page import PAGE, RESULT, render


def test_the_page_is_that_of_the_kept_result() -> None:
    report = json.loads(RESULT.read_text())

    assert render(PAGE.read_text(), report) == PAGE.read_text()
    assert {run["fault"] for run in report["runs"]} <= {*FAULTS, END}
    assert [run for run in report["runs"] if run["outcome"]["wrong"]] == []
