"""Output punctuations of the engine equal their definition, over any number of buckets."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.types import JoinType
from support.cases import cases
from support.output_driver import Driver
from support.output_world import World, histories
from support.sizes import BUCKETS, MERGING, Merging


@pytest.mark.parametrize("kind", JoinType)
@cases(18, among=len(JoinType))
@given(data=st.data(), buckets=BUCKETS, purge_every=st.sampled_from([1, 3]), merging=MERGING)
def test_announcements_equal_their_definition(
    kind: JoinType, data: st.DataObject, buckets: int, purge_every: int, merging: Merging
) -> None:
    """Results and violations are those of the definition; no result matches what an earlier batch announced;
    and in the end every pattern that is complete is announced, once, whatever the batches and buckets and
    however late state is purged."""
    history = data.draw(histories(kind))
    expected = World(history).expected()
    with tempfile.TemporaryDirectory() as directory, merging.limits():
        actual = Driver(history, buckets, Path(directory), purge_every).run()

    assert actual.results == expected.results
    assert actual.violations == expected.violations
    assert actual.broken == []
    assert actual.patterns == expected.patterns
    assert actual.keys.keys() <= expected.keys
    assert set(actual.keys.values()) <= {1}
