"""The segment engine, under every preset, against the join's definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.operators.stream_join import closed_keys
from endmark.operators.stream_join.presets import PRESETS, Policy, Preset, policy
from endmark.types import JoinType
from support.cases import cases
from support.sizes import BUCKETS, MERGING, Merging
from support.small_limits import small_limits
from support.stream_join_driver import Actual, Driver
from support.stream_join_keys import KINDS, KeyKind
from support.stream_join_world import (
    KEYS,
    SIDES,
    Event,
    History,
    SideName,
    crowded_histories,
    expect,
    histories,
)

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
@cases(6, among=len(JoinType))
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


FORGETTING: dict[JoinType, tuple[SideName, ...]] = {
    JoinType.INNER: ("left", "right"),
    JoinType.SEMI: ("left", "right"),
    JoinType.LEFT: ("left",),
    JoinType.RIGHT: ("right",),
}


@pytest.mark.parametrize("kind", FORGETTING)
@cases(18)
@given(
    data=st.data(),
    key=st.sampled_from(KINDS),
    restart=st.booleans(),
    buckets=BUCKETS,
    merging=MERGING,
    recent=st.sampled_from([-1, 0, 2]),
)
def test_a_forgotten_key_changes_nothing(
    kind: JoinType,
    data: st.DataObject,
    key: KeyKind,
    restart: bool,
    buckets: int,
    merging: Merging,
    recent: int,
) -> None:
    """Results and violations are those of a join that remembers all keys, and no result has a key that was
    announced before, if no stream uses a key again long after closing it. A key may be announced twice."""
    history = data.draw(histories(kind))
    windows: dict[SideName, int | None] = {side: data.draw(st.sampled_from([0, 1, 3])) for side in SIDES}
    forget_after: dict[SideName, int] = {
        side: (windows[side] or 0) + data.draw(st.integers(0, 2)) for side in FORGETTING[kind]
    }
    streams = {
        side: [_without_old_keys(events, key, forget_after.get(side)) for events in partitions]
        for side, partitions in history.streams.items()
    }
    history = replace(history, streams=streams, windows=windows)
    chosen = policy(
        data.draw(st.sampled_from([Preset.AUTO, Preset.PWJOIN, Preset.WJOIN])),
        windowed=True,
    )
    expected = expect(history, key, chosen.propagate)

    with small_limits(merging) as directory, patch.object(closed_keys, "RECENT", recent):
        driver = Driver(
            history,
            key,
            directory,
            restart=restart,
            policy=chosen,
            buckets=buckets,
            forget_after=forget_after,
        )
        actual = driver.run()

    assert expected.results == actual.results
    assert expected.violations == actual.violations
    assert set(expected.announced) == set(actual.announced)
    assert actual.too_late == []
    assert actual.state_rows <= expected.unpurged_rows


def _without_old_keys(events: list[Event], key: KeyKind, forget_after: int | None) -> list[Event]:
    """Leave out the rows of one partition that use a named key again long after its first promise."""
    if forget_after is None:
        return events
    kept, newest, closed = list[Event](), -1, dict[int, int]()
    for event in events:
        if event.time is None:
            if event.until is None and event.names_keys(key):
                for number in KEYS:
                    if event.closes(key, number):
                        closed.setdefault(number, newest)
        elif event.time > closed.get(event.key, event.time) + forget_after:
            continue
        else:
            newest = max(newest, event.time)
        kept.append(event)
    return kept


def forgetting(directory: Path, time: int, last: Event) -> Driver:
    """Return a driver of a join that forgets keys of the left side after 6.

    The left side closes key 0 at time 5, and both sides are at `time` when `last` comes on the left.
    """
    left = [Event(0, 5), Event(0, None), *(Event(1, time) for _ in range(6)), last]
    history = History(
        kind=JoinType.INNER,
        residual=False,
        streams={"left": [left], "right": [[Event(1, time)]]},
        windows={"left": 6, "right": 6},
        lateness={"left": 0, "right": 0},
        keyed={"left": True, "right": True},
        cuts=[{"left": [2], "right": [0]}, {"left": [6], "right": [1]}],
    )
    return Driver(history, KINDS[0], directory, restart=True, forget_after={"left": 6})


def test_a_row_of_a_forgotten_key_is_late(tmp_path: Path) -> None:
    """At time 12 the key is forgotten. Rows up to 11 are late then; one of time 12 or later would be the row
    of a new key."""
    with patch.object(closed_keys, "RECENT", -1):
        driver = forgetting(tmp_path, 12, Event(0, 11))
        actual = driver.run()

    assert actual.violations == Counter({("left", "late", 0, 8): 1})
    assert driver.remembered("left") == 0
    assert actual.announced == [0]


def test_a_key_is_remembered_while_its_rows_are_not_late(tmp_path: Path) -> None:
    """At time 8 the key is not forgotten. A row of time 9 is not late, and breaks the promise."""
    with patch.object(closed_keys, "RECENT", -1):
        actual = forgetting(tmp_path, 8, Event(0, 9)).run()

    assert actual.violations == Counter({("left", "closed", 0, 8): 1})


@pytest.mark.parametrize("preset", [preset for preset in Preset if PRESETS[preset].spill])
@cases(9, among=4)
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
