"""The segment engine against the join's definition."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given

from endmark.state import search, segment_list
from support.cases import cases
from support.stream_join_driver import run
from support.stream_join_world import History, expect, histories


@pytest.mark.parametrize("restart", [False, True], ids=["kept", "restored"])
@cases(500)
@given(history=histories())
def test_engine_equals_definition(restart: bool, history: History) -> None:
    """Results, violations, announcements and live state are those of the definition, whatever the batches."""
    expected = expect(history)
    # Small limits, so that merging segments and splitting hot keys happen on a dozen rows.
    with (
        tempfile.TemporaryDirectory() as directory,
        patch.object(segment_list, "FANOUT", 3),
        patch.object(search, "PAIRS_AT_ONCE", 4),
    ):
        actual = run(history, Path(directory), restart=restart)

    assert expected.results == actual.results
    assert expected.violations == actual.violations
    assert Counter(expected.announced) == Counter(actual.announced)
    assert actual.too_late == []
    assert expected.state_rows == actual.state_rows
