"""The n-ary join, under every preset, against the literal definition, DuckDB, and rules applied at once."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.operators.stream_join.presets import PRESETS, Policy, Preset, Propagation, policy
from endmark.punctuation import pattern as punctuation
from endmark_papers.algorithms.pwjoin_nary import NaryElement, NaryRow
from support.cases import cases
from support.nary_join_definition import NaryHistory, NaryWorld
from support.nary_join_definition import histories as literal_histories
from support.nary_join_driver import NaryDriver
from support.nary_join_world import (
    KEYS,
    SHARE,
    NaryStreams,
    Result,
    Stream,
    announced,
    crowded_streams,
    defined,
    kept,
    nary_streams,
    recompute,
)
from support.sizes import BUCKETS, MERGING, Merging
from support.small_limits import small_limits
from support.stream_join_keys import KINDS, KeyKind
from support.stream_join_punctuations import Tagged
from support.stream_join_world import Event, Pattern

Numbered = tuple[int, NaryElement]
LONG = KINDS[0]
ROW_BYTES = 32  # of a row whose key is one integer: four numbers


def policies(preset: Preset) -> st.SearchStrategy[Policy]:
    """Any policy that a preset may have."""
    able = PRESETS[preset]
    counts = st.sampled_from([1, 2, 3, 100] if able.batch else [1])
    # In bytes: no room for any row, for about one, or for several.
    budgets = st.sampled_from([None, None, None, 1, 50, 160, 500] if able.spill else [None])
    return st.builds(partial(policy, preset, windowed=able.window), purge_every=counts, memory=budgets)


def defined_results(world: NaryWorld) -> set[Result]:
    return {tuple(divmod(row.serial, SHARE) for row in joined) for joined in world.results()}


def places(rows: set[NaryRow]) -> set[tuple[str, int, int]]:
    return {(row.side, *divmod(row.serial, SHARE)) for row in rows}


@pytest.mark.parametrize("preset", Preset)
@cases(5, among=len(Preset))
@given(data=st.data(), key=st.sampled_from(KINDS), restart=st.booleans(), buckets=BUCKETS, merging=MERGING)
def test_nary_equals_definition(
    preset: Preset, data: st.DataObject, key: KeyKind, restart: bool, buckets: int, merging: Merging
) -> None:
    """Results, violations, announcements and live state, whatever the batches and the type of the key, in how
    many buckets, however segments merge, and whether the operator goes on or is restored before every batch.

    In the end all streams reach one time. From then on only rows of use are held, and all keys without
    results to come are announced."""
    world = data.draw(nary_streams(windowed=PRESETS[preset].window))
    chosen = data.draw(policies(preset))
    found = recompute(world, key)
    assert defined_results(defined(world, found)) == found.results
    with small_limits(merging) as directory:
        join = NaryDriver(world.streams, key, directory, restart=restart, policy=chosen, buckets=buckets)
        for batch in world.batches():
            join.take(batch)
        join.drain()
        join.pause()

        assert join.results == Counter(found.results)
        assert join.violations == Counter(found.violations)
        rows = kept(world, found, purges=chosen.purge_every is not None)
        assert join.live() == {row[:3] for row in rows}
        assert Counter(join.announced) == Counter(announced(found, rows, chosen.propagate))

        now = max(found.times, default=0)
        in_step = defined(world, found, now, punctuated=chosen.purge_every is not None)
        join.reach(now)
        assert join.live() == places(in_step.needed())
        if chosen.propagate is Propagation.EARLY:
            assert Counter(join.announced) == Counter(in_step.over() & set(KEYS))
        assert join.results == Counter(found.results)
        assert join.too_late == []


@pytest.mark.parametrize("preset", [preset for preset in Preset if PRESETS[preset].spill])
@cases(6, among=4)
@given(
    data=st.data(),
    budget=st.integers(1, 8),
    purge_every=st.sampled_from([1, 2, 100]),
    restart=st.booleans(),
    drained=st.sets(st.integers(0, 13), max_size=2),
    merging=st.builds(Merging, st.sampled_from([2, 3]), st.just(1 << 19)),
)
def test_nary_spilled_rows_are_joined_once(
    preset: Preset,
    data: st.DataObject,
    budget: int,
    purge_every: int,
    restart: bool,
    drained: set[int],
    merging: Merging,
) -> None:
    """A join whose memory holds `budget` rows gives the results of DuckDB over many short batches."""
    able = PRESETS[preset]
    world = data.draw(crowded_streams(windowed=able.window))
    every = purge_every if able.batch else 1
    chosen = policy(preset, windowed=able.window, purge_every=every, memory=budget * ROW_BYTES)
    found = recompute(world, LONG)
    with small_limits(merging) as directory:
        join = NaryDriver(world.streams, LONG, directory, restart=restart, policy=chosen)
        for number, batch in enumerate(world.batches()):
            join.take(batch)
            if number in drained:
                join.drain()
        join.drain()
        join.pause()

        assert join.results == Counter(found.results)
        assert join.too_late == []
        rows = kept(world, found, purges=chosen.purge_every is not None)
        assert join.live() == {row[:3] for row in rows}
        assert Counter(join.announced) == Counter(announced(found, rows, chosen.propagate))


PROMPT = [preset for preset in Preset if PRESETS[preset].purge]


@pytest.mark.parametrize("preset", PROMPT)
@cases(6, among=len(PROMPT))
@given(
    history=literal_histories(),
    cuts=st.lists(st.integers(1, 6)),
    budget=st.sampled_from([None, None, 1, 160]),
    restart=st.booleans(),
    buckets=BUCKETS,
    merging=MERGING,
)
def test_nary_after_each_batch_is_the_literal_definition(
    preset: Preset,
    history: NaryHistory,
    cuts: list[int],
    budget: int | None,
    restart: bool,
    buckets: int,
    merging: Merging,
) -> None:
    """Streams in one order of time, as the literal reference has them. After each batch all of them say what
    time it is. Then only rows of use are held, and all keys without results to come are announced."""
    able = PRESETS[preset]
    windows = history.windows if able.window else dict.fromkeys(history.windows)
    chosen = policy(preset, windowed=able.window, memory=budget if able.spill else None)
    world = NaryWorld(windows)
    streams = {
        side: Stream([[]], None if window is None else int(window), 0, keyed=True)
        for side, window in windows.items()
    }
    with small_limits(merging) as directory:
        join = NaryDriver(streams, LONG, directory, restart=restart, policy=chosen, buckets=buckets)
        for elements in cut(list(enumerate(history.elements)), cuts):
            for _, element in elements:
                world.arrive(element)
            join.take({side: events(elements, side) for side in streams})
            join.reach(int(world.now))
            join.drain()

            results = (tuple((0, row.serial) for row in joined) for joined in world.results())
            assert join.results == Counter(results)
            assert join.violations == Counter((row.side, "closed", 0, row.serial) for row in world.violations)
            assert join.live() == {(row.side, 0, row.serial) for row in world.needed()}
            assert Counter(join.announced) == Counter(ends(world, chosen.propagate))
            assert join.too_late == []


def test_nary_rows_that_leave_by_key_and_window_free_others() -> None:
    """The row of a leaves, since b has closed its key and c has left its window. It was a's last row of a key
    that a has closed, so the row of b is of no use either, though c could still send one."""
    closing = Event(0, None)
    world = NaryStreams(
        streams={
            "a": Stream([[Event(0, 0), closing]], 2, 0, keyed=True),
            "b": Stream([[Event(0, 0), closing]], None, 0, keyed=True),
            "c": Stream([[Event(1, 0), Event(1, 10)]], None, 0, keyed=True),
        },
        cuts=[{"a": [2], "b": [2], "c": [1]}],
    )
    with small_limits(Merging(2, 1 << 19)) as directory:
        join = NaryDriver(world.streams, LONG, directory, restart=True, policy=Policy())
        first, second = world.batches()
        join.take(first)
        assert (len(join.live()), join.announced) == (3, [])
        join.take(second)
        assert (join.live(), join.announced) == ({("c", 0, 0), ("c", 0, 1)}, [0])


def cut(elements: list[Numbered], sizes: list[int]) -> list[list[Numbered]]:
    """The elements in batches of some sizes, and the rest."""
    batches, rest = [], elements
    for size in sizes:
        batches.append(rest[:size])
        rest = rest[size:]
    return [*batches, rest]


def events(elements: list[Numbered], side: str) -> list[Tagged]:
    """The elements of a side, as events of one partition."""
    return [(0, number, event(element)) for number, element in elements if element.side == side]


def event(element: NaryElement) -> Event:
    if isinstance(element, NaryRow):
        return Event(int(str(element.key)), int(element.time))
    match element.pattern:
        case punctuation.Equals(value):
            return Event(int(str(value)), None)
        case punctuation.OneOf(values):
            return Event(0, None, patterns=(Pattern(among=frozenset(map(int, map(str, values)))),))
        case punctuation.Between(low, high, low_open, high_open):
            first, last = (None if end is None else int(str(end)) for end in (low, high))
            return Event(0, None, patterns=(Pattern(None, first, last, low_open, high_open),))
        case _:
            return Event(0, None, patterns=(Pattern(),))


def ends(world: NaryWorld, rule: Propagation) -> set[int]:
    """The keys that are announced once all sides know the time."""
    if rule is Propagation.EARLY:
        return world.over() & set(KEYS)
    return {key for key in KEYS if all(world.closed(side, key) for side in world.windows)}
