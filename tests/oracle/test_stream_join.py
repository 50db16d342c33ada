"""The segment engine against the join's definition."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.state import keys, search, segment_list
from endmark.types import JoinType
from support.cases import cases
from support.stream_join_driver import Driver
from support.stream_join_keys import KINDS, KeyKind
from support.stream_join_world import expect, histories

_hash = keys.hash_columns


@pytest.mark.parametrize("kind", JoinType)
@cases(200, among=len(JoinType))
@given(data=st.data(), key=st.sampled_from(KINDS), restart=st.booleans())
def test_engine_equals_definition(kind: JoinType, data: st.DataObject, key: KeyKind, restart: bool) -> None:
    """Results, violations, announcements and live state are those of the definition, whatever the batches and
    the type of the key, and whether the operator goes on or is restored before every batch."""
    history = data.draw(histories(kind))
    expected = expect(history, key)
    # Small limits, so that merging segments, splitting hot keys and colliding codes happen on a dozen rows.
    with (
        tempfile.TemporaryDirectory() as directory,
        patch.object(segment_list, "FANOUT", 3),
        patch.object(search, "PAIRS_AT_ONCE", 4),
        patch.object(keys, "hash_columns", lambda columns: _hash(columns) & 1),
    ):
        actual = Driver(history, key, Path(directory), restart=restart).run()

    assert expected.results == actual.results
    assert expected.violations == actual.violations
    assert Counter(expected.announced) == Counter(actual.announced)
    assert actual.too_late == []
    assert expected.state_rows == actual.state_rows
