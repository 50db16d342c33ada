"""The segment engine, under every preset, against the join's definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.operators.stream_join.presets import PRESETS, Policy, Preset, policy
from endmark.types import JoinType
from support.cases import cases
from support.sizes import BUCKETS, MERGING, Merging
from support.small_limits import small_limits
from support.stream_join_driver import Actual, Driver
from support.stream_join_keys import KINDS, KeyKind
from support.stream_join_world import Event, History, SideName, crowded_histories, expect, histories

ROW_BYTES = 40  # of a row whose key is one integer: five numbers


def run(
    history: History,
    key: KeyKind,
    chosen: Policy,
    merging: Merging,
    *,
    restart: bool,
    buckets: int = 1,
    drained: Collection[int] = (),
) -> Actual:
    with small_limits(merging) as directory:
        driver = Driver(
            history, key, directory, restart=restart, policy=chosen, buckets=buckets, drained=drained
        )
        return driver.run()


def policies(preset: Preset) -> st.SearchStrategy[Policy]:
    """Any policy that a preset may have."""
    able = PRESETS[preset]
    counts = st.sampled_from([1, 2, 3, 100] if able.batch else [1])
    # In bytes: no room for any row, for about one, or for several.
    budgets = st.sampled_from([None, None, None, 1, 60, 200, 600] if able.spill else [None])
    return st.builds(partial(policy, preset, windowed=able.window), purge_every=counts, memory=budgets)


@pytest.mark.parametrize("preset", Preset)
@pytest.mark.parametrize("kind", JoinType)
@cases(20, among=len(JoinType))
@given(
    data=st.data(),
    key=st.sampled_from(KINDS),
    restart=st.booleans(),
    buckets=BUCKETS,
    merging=MERGING,
)
def test_engine_equals_definition(
    kind: JoinType,
    preset: Preset,
    data: st.DataObject,
    key: KeyKind,
    restart: bool,
    buckets: int,
    merging: Merging,
) -> None:
    """Results, violations, announcements and live state are those of the definition, whatever the batches and
    the type of the key, in how many buckets, however segments merge, and whether the operator goes on or is
    restored before every batch."""
    history = data.draw(histories(kind, windowed=PRESETS[preset].window))
    chosen = data.draw(policies(preset))
    expected = expect(history, key, chosen.propagate)

    actual = run(history, key, chosen, merging, restart=restart, buckets=buckets)

    assert expected.results == actual.results
    assert expected.violations == actual.violations
    assert Counter(expected.announced) == Counter(actual.announced)
    assert actual.too_late == []
    purges = chosen.purge_every is not None
    assert actual.state_rows == (expected.state_rows if purges else expected.unpurged_rows)


@pytest.mark.parametrize("preset", [preset for preset in Preset if PRESETS[preset].spill])
@cases(50, among=4)
@given(
    data=st.data(),
    budget=st.integers(1, 8),
    purge_every=st.sampled_from([1, 2, 100]),
    restart=st.booleans(),
    drained=st.sets(st.integers(0, 15), max_size=2),
    merging=st.builds(Merging, st.sampled_from([2, 3]), st.just(1 << 19)),
)
def test_spilled_rows_meet_each_partner_once(
    preset: Preset,
    data: st.DataObject,
    budget: int,
    purge_every: int,
    restart: bool,
    drained: set[int],
    merging: Merging,
) -> None:
    """A join whose memory holds `budget` rows gives the results of the definition over many short batches."""
    able = PRESETS[preset]
    history = data.draw(crowded_histories(windowed=able.window))
    chosen = policy(
        preset,
        windowed=able.window,
        purge_every=purge_every if able.batch else 1,
        memory=budget * ROW_BYTES,
    )
    expected = expect(history, KINDS[0], chosen.propagate)

    actual = run(history, KINDS[0], chosen, merging, restart=restart, drained=drained)

    assert expected.results == actual.results
    assert Counter(expected.announced) == Counter(actual.announced)
    assert actual.too_late == []


def test_a_row_that_a_drain_puts_out_holds_back_its_key() -> None:
    """A semi join puts out a spilled left row when it drains. The key that the left side closes then is not
    announced, because the right side's progress has not passed the window of that row."""
    rows: dict[SideName, list[Event]] = {
        "left": [Event(0, 0), Event(1, 0), Event(0, None)],
        "right": [Event(0, 1)],
    }
    history = History(
        kind=JoinType.SEMI,
        residual=False,
        streams={side: [events] for side, events in rows.items()},
        windows={"left": None, "right": None},
        lateness={"left": 0, "right": 0},
        keyed={"left": True, "right": True},
        cuts=[{"left": [2], "right": [0]}, {"left": [0], "right": [1]}],
    )
    chosen = policy(Preset.AUTO, windowed=True, memory=ROW_BYTES)

    actual = run(history, KINDS[0], chosen, Merging(2, 1 << 19), restart=True, drained={1})

    assert actual.results == Counter({((0, 0), None): 1})
    assert actual.announced == []
