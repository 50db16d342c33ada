"""The segment engine, under every preset, against the join's definition."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.joins.presets import PRESETS, Policy, Preset, policy
from endmark.state import keys, search, segment_list
from endmark.types import JoinType
from support.cases import cases
from support.stream_join_driver import Actual, Driver
from support.stream_join_keys import KINDS, KeyKind
from support.stream_join_world import History, expect, histories

_hash = keys.hash_columns


@contextmanager
def small_limits() -> Iterator[Path]:
    """Merging segments, splitting hot keys, sieves and colliding codes happen on a dozen rows."""
    with (
        tempfile.TemporaryDirectory() as directory,
        patch.object(segment_list, "FANOUT", 3),
        patch.object(search, "PAIRS_AT_ONCE", 4),
        patch.object(keys, "SIFTED", 2),
        patch.object(keys, "hash_columns", lambda columns: _hash(columns) & 1),
    ):
        yield Path(directory)


def run(history: History, key: KeyKind, chosen: Policy, *, restart: bool, buckets: int = 1) -> Actual:
    with small_limits() as directory:
        return Driver(history, key, directory, restart=restart, policy=chosen, buckets=buckets).run()


def policies(preset: Preset) -> st.SearchStrategy[Policy]:
    """Whatever a preset may be told."""
    able = PRESETS[preset]
    counts = st.sampled_from([1, 2, 3, 100] if able.batch else [1])
    # In bytes: no room for any row, for about one, or for several.
    budgets = st.sampled_from([None, None, None, 1, 60, 200, 600] if able.spill else [None])
    return st.builds(partial(policy, preset, windowed=able.window), purge_every=counts, memory=budgets)


@pytest.mark.parametrize("preset", Preset)
@pytest.mark.parametrize("kind", JoinType)
@cases(20, among=len(JoinType))
@given(
    data=st.data(), key=st.sampled_from(KINDS), restart=st.booleans(), buckets=st.sampled_from([1, 1, 2, 7])
)
def test_engine_equals_definition(
    kind: JoinType, preset: Preset, data: st.DataObject, key: KeyKind, restart: bool, buckets: int
) -> None:
    """Results, violations, announcements and live state are those of the definition, whatever the batches and
    the type of the key, in how many buckets, and whether the operator goes on or is restored before every
    batch."""
    history = data.draw(histories(kind, windowed=PRESETS[preset].window))
    chosen = data.draw(policies(preset))
    expected = expect(history, key, chosen.propagate)

    actual = run(history, key, chosen, restart=restart, buckets=buckets)

    assert expected.results == actual.results
    assert expected.violations == actual.violations
    assert Counter(expected.announced) == Counter(actual.announced)
    assert actual.too_late == []
    least, most = expected.state_rows, expected.unpurged_rows
    if chosen.purge_every == 1:
        most = least
    elif chosen.purge_every is None:
        least = most
    assert least <= actual.state_rows <= most
