"""The page of reliability has a row for each kind of damage, from a result file."""

from __future__ import annotations

import json

from damage.damages import KINDS
from damage.page import PAGE, RESULT, render


def test_the_page_is_that_of_the_kept_result() -> None:
    report = json.loads(RESULT.read_text())

    assert render(PAGE.read_text(), report) == PAGE.read_text()
    assert {kind for part in report["parts"] for kind in part["runs"]} == KINDS.keys()
    assert not any(part["wrong"] for part in report["parts"])
