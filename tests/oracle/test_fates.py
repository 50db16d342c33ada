"""The engine's parser against a strict reading of JSON, on values that are easily misread."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.pipeline.formats import FORMATS
from endmark.punctuation.pattern import Between, Equals, OneOf, Pattern
from endmark.verify.formats.patterns import Bound
from endmark.verify.formats.registry import reason_of
from support.cases import cases
from support.payload_mutants import mutants
from support.payloads import LISTED, STREAMS
from support.verify_fates import Promise, fate


def fates(stream: str, values: list[bytes | None]) -> list[Any]:
    """Parse all values at once, and return the fate of each: columns of a row, a closed key, a promise, or
    `dead letter`. Each rejection has the reason that `verify` finds."""
    declared, *_ = STREAMS[stream]
    parser = FORMATS["json"].parser(declared, "bids", declared.punctuated_on, (), None)
    parsed = parser.parse(pa.array(values, pa.binary()))
    found: dict[int, Any] = {}
    found.update(zip(parsed.row_at.tolist(), parsed.rows.to_pylist(), strict=True))
    keys = [tuple(key.values()) for key in parsed.closed_keys.to_pylist()]
    found.update(zip(parsed.closed_keys_at.tolist(), keys, strict=True))
    found.update((at, Promise(tuple(map(_bound, promise.patterns)))) for at, promise in parsed.promises)
    for rejection in parsed.rejections:
        assert rejection.value == values[rejection.at]
        assert rejection.reason == reason_of(rejection.value, declared), rejection
        found[rejection.at] = "dead letter"
    return [found[at] for at in range(len(values))]


def _bound(pattern: tuple[str, Pattern]) -> tuple[str, Bound]:
    match pattern:
        case (name, Equals(value)):
            return name, Bound(frozenset([value]))
        case (name, OneOf(values)):
            return name, Bound(values)
        case (name, Between(low, high, low_open, high_open)):
            return name, Bound(None, low, high, low_open, high_open)
    return pattern[0], Bound(frozenset())


@pytest.mark.parametrize(("stream", "case"), LISTED)
def test_listed_value_meets_its_fate(stream: str, case: str) -> None:
    """Alone, each listed value is read as strict JSON is."""
    value = LISTED[stream, case]

    assert fates(stream, [value]) == [fate(STREAMS[stream][0], value)]


@pytest.mark.parametrize("stream", STREAMS)
def test_listed_values_do_not_spoil_each_other(stream: str) -> None:
    """Together in one block, each is read as it is alone."""
    values = [value for (of, _), value in LISTED.items() if of == stream]

    assert fates(stream, values) == [fate(STREAMS[stream][0], value) for value in values]


@cases(60, among=2)
@given(st.lists(mutants("one key"), min_size=1, max_size=40))
def test_mutants_meet_the_same_fate(values: list[bytes]) -> None:
    """Small cuts and insertions never make the parser and a strict reading differ."""
    assert fates("one key", list(values)) == [fate(STREAMS["one key"][0], value) for value in values]


@pytest.mark.parametrize("stream", ["gaps", "extra members", "numbers"])
@cases(30, among=4)
@given(data=st.data())
def test_mutants_of_other_streams_meet_the_same_fate(stream: str, data: st.DataObject) -> None:
    """Parser and definition agree where columns may be null, members are ignored or times are numbers."""
    values = data.draw(st.lists(mutants(stream), min_size=1, max_size=40))

    assert fates(stream, list(values)) == [fate(STREAMS[stream][0], value) for value in values]


@cases(30, among=2)
@given(st.lists(mutants("many keys"), min_size=1, max_size=40))
def test_mutants_of_long_punctuations_meet_the_same_fate(values: list[bytes]) -> None:
    """Parser and definition agree where a punctuation names values of many columns."""
    assert fates("many keys", list(values)) == [fate(STREAMS["many keys"][0], value) for value in values]
