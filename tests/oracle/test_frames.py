"""Joins of frames against their definition, over any number of buckets, and one on the output of another."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from datetime import timedelta
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.operators.stream_join.presets import Policy
from endmark.types import JoinType
from support.cases import cases
from support.frame_tasks import COLUMN, Frame, FrameTasks, Rows, said
from support.frame_world import (
    NOTHING,
    SCHEMA,
    START,
    USUAL,
    Told,
    batches,
    following,
    matches,
    named_by,
    of_frames,
    punctuations,
    schema_of,
    without_time,
    wrong,
)
from support.output_world import KEYS, SIDES, History, World, histories
from support.sizes import BUCKETS
from support.times import SMALL, spellings


def join_of(history: History, directory: Path, schema: pa.Schema = SCHEMA, **join: Any) -> FrameTasks:
    frames: dict[str, Frame] = {}
    for side in SIDES:
        window = history.windows[side]
        span = None if window is None else timedelta(microseconds=window)
        frames[side] = Frame(schema, ("key",), "time", span, history.keyed[side])
    return FrameTasks(frames, directory, kind=history.kind, **join)


@pytest.mark.parametrize("kind", JoinType)
@cases(13, among=len(JoinType))
@given(data=st.data(), buckets=BUCKETS, purge_every=st.sampled_from([1, 3]))
def test_frames_equal_their_definition(
    kind: JoinType, data: st.DataObject, buckets: int, purge_every: int
) -> None:
    """Results, violations and patterns are those of the definition, and each key that is named and final is
    announced once, by the columns of each side that results show."""
    spelled = data.draw(spellings(START, SMALL))
    history = of_frames(data.draw(histories(kind)), spelled)
    expected = World(history).expected()
    told = Told(spelled)
    with tempfile.TemporaryDirectory() as directory:
        join = join_of(
            history,
            Path(directory),
            schema_of(spelled),
            buckets=buckets,
            policy=Policy(purge_every=purge_every),
        )
        for batch in batches(history, spelled):
            told.take(join.batch(**batch))

    assert told.results == expected.results
    assert told.violations == expected.violations
    assert told.broken == []
    shown = SIDES[:1] if kind is JoinType.SEMI else SIDES
    singles = {key: [frozenset({(f"{side}_key", frozenset({key}))}) for side in shown] for key in KEYS}
    for key in set(KEYS) - _in_patterns(history):
        for each in singles[key]:
            assert told.announced[each] == (key in expected.keys)
    by_name = {each for of_key in singles.values() for each in of_key}
    rest = {each: count for each, count in told.announced.items() if each not in by_name}
    assert rest == {each: count for each, count in expected.patterns.items() if each not in by_name}


@cases(6)
@given(order=st.permutations(range(8)), buckets=BUCKETS)
def test_a_pattern_waits_for_the_last_bucket(order: list[int], buckets: int) -> None:
    """One that matches rows of all keys is announced with the last of them to be closed, in any order,
    though each batch has a punctuation for one bucket alone."""
    whole = {"value": {"equals": 1}}
    rows = [{"key": key, "value": 1, "number": key, "time": START} for key in order]
    both: dict[str, Frame] = dict.fromkeys(SIDES, Frame(SCHEMA, ("key",), "time"))
    with tempfile.TemporaryDirectory() as directory:
        join = FrameTasks(both, Path(directory), buckets=buckets)
        out = [join.batch([*rows, said(whole)])]
        out += [join.batch([], [said({"key": {"equals": key}})]) for key in order]

    text = json.dumps({"left_value": whole["value"]})
    assert [text in punctuations(batch) for batch in out] == [False] * len(order) + [True]


@cases(13)
@given(data=st.data(), buckets=BUCKETS)
def test_a_result_is_an_input_of_the_next_join(data: st.DataObject, buckets: int) -> None:
    """No row of the first join breaks a punctuation of its own. The second has all pairs of these and the
    third frame's, none of which matches what an earlier batch announced; it announces each pattern once, a
    key that all frames have closed among them; and what is wrong with the first two frames comes through.
    A pattern of one key is spelled like the key, so both may be announced."""
    first = of_frames(data.draw(histories(data.draw(st.sampled_from([JoinType.INNER, JoinType.LEFT])))))
    third = without_time(of_frames(data.draw(histories(JoinType.INNER))))
    came: list[Rows] = []
    out: list[Rows] = []
    with tempfile.TemporaryDirectory() as directory:
        join = join_of(first, Path(directory), buckets=buckets)
        left = Frame(pa.schema(list(join.schema)[:-1]), ("left_key",), "left_time")
        right = Frame(SCHEMA, ("key",), "time", punctuated=third.keyed["right"])
        over = FrameTasks(
            {"left": left, "right": right}, Path(directory), buckets=buckets, lateness=timedelta(days=9)
        )
        for one, other in zip_longest(batches(first), batches(third), fillvalue=NOTHING):
            came.append(join.batch(**one))
            out.append(over.batch(came[-1], other["right"]))

    world = World(third)
    rows = [row for batch in came for row in batch if row[COLUMN] is None]
    assert Counter(
        (row["left_left_number"], row["left_right_number"], row["right_number"])
        for batch in out
        for row in batch
        if row[COLUMN] is None
    ) == Counter(
        (row["left_number"], row["right_number"], at[1])
        for row in rows
        for at, event in world.rows["right"].items()
        if event.key == row["left_key"]
    )
    broken = Counter(wrong(out))
    broken.subtract(wrong(came))
    assert broken == Counter({("right", at): 1 for side, _, at in world.violations if side == "right"})
    announced = Counter(text for batch in out for text in punctuations(batch))
    by_pattern = _in_patterns(first) | _in_patterns(third)
    # A pattern of one key, and the key by name.
    twice = {text for key in _alone_in_patterns(first) | _alone_in_patterns(third) for text in _spelled(key)}
    assert {count for text, count in announced.items() if text not in twice} <= {1}
    assert all(announced[text] <= 2 for text in twice)
    assert [row for row, text in following(out) if matches(USUAL.sets(json.loads(text)), row)] == []
    named = set.intersection(named_by(first, "left"), named_by(first, "right"), named_by(third, "right"))
    for key in named - by_pattern:
        assert [announced[text] for text in _spelled(key)] == [1, 1, 1]


def _spelled(key: int) -> list[str]:
    columns = "left_left_key", "left_right_key", "right_key"
    return [json.dumps({column: {"equals": key}}) for column in columns]


def _in_patterns(history: History) -> set[int]:
    """Keys that a pattern may have closed: what waits of these may be announced by the pattern or by name."""
    return set().union(*_key_patterns(history))


def _alone_in_patterns(history: History) -> set[int]:
    return set().union(*(keys for keys in _key_patterns(history) if len(keys) == 1))


def _key_patterns(history: History) -> list[set[int]]:
    """Return the keys of each pattern on the key alone."""
    promises = [event.promise for batch in history.batches for event in batch if event.patterns]
    return [set(promise["key"]) for promise in promises if promise.keys() == {"key"}]
