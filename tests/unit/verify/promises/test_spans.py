"""Ranges as `verify` writes them: in the order of words that the job's own text has."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from endmark.types import ColumnType
from endmark.verify.formats.patterns import Bound
from endmark.verify.promises.spans import spans_of, written


@pytest.mark.parametrize("low_open", [False, True])
@pytest.mark.parametrize("high_open", [False, True])
def test_ends_come_before_what_is_open(low_open: bool, high_open: bool) -> None:
    kind = ColumnType.parse("decimal(5,1)")
    bound = Bound(low=Decimal("1.5"), high=Decimal("2.5"), low_open=low_open, high_open=high_open)
    expected: dict[str, str | bool] = {"from": "1.5", "to": "2.5"}
    expected |= {name: True for name, is_open in (("from_open", low_open), ("to_open", high_open)) if is_open}
    assert json.dumps(written(spans_of(bound, kind), kind)) == json.dumps({"between": expected})
