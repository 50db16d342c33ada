"""The engine's parser against a strict reading of JSON, on values that are easily misread."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.formats.json_records import JsonParser
from support.cases import cases
from support.payloads import ALIVE, DEAD, PIPELINE, mutants
from support.verify_oracle import fate

STREAM = PIPELINE.streams["bids"]
PARSER = JsonParser(STREAM.columns, STREAM.punctuated_on)


def fates(values: list[bytes | None]) -> list[Any]:
    """What the parser makes of all values at once: columns of a row, a closed key, or `dead letter`."""
    parsed = PARSER.parse(pa.array(values, pa.binary()))
    found: dict[int, Any] = {}
    found.update(zip(parsed.row_at.tolist(), parsed.rows.to_pylist(), strict=True))
    found.update(zip(parsed.closed_at.tolist(), parsed.closed.to_pylist(), strict=True))
    for rejection in parsed.rejections:
        assert rejection.value == values[rejection.at]
        found[rejection.at] = "dead letter"
    return [found[at] for at in range(len(values))]


@pytest.mark.parametrize("case", [*DEAD, *ALIVE])
def test_listed_value_meets_its_fate(case: str) -> None:
    """Alone, each listed value is read as strict JSON is."""
    value = DEAD[case] if case in DEAD else ALIVE[case][0]

    assert fates([value]) == [fate(STREAM, value)]


def test_listed_values_do_not_spoil_each_other() -> None:
    """Together in one block, each is read as it is alone."""
    values = [*DEAD.values(), *(value for value, _ in ALIVE.values())]

    assert fates(values) == [fate(STREAM, value) for value in values]


@cases(200)
@given(st.lists(mutants(), min_size=1, max_size=40))
def test_mutants_meet_the_same_fate(values: list[bytes]) -> None:
    """Small cuts and insertions never make the parser and a strict reading differ."""
    assert fates(list(values)) == [fate(STREAM, value) for value in values]
