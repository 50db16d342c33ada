"""Punctuations spelled a column at a time are those spelled one by one."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
import pytest

from endmark.domain import Domain
from endmark.punctuation.columns import domain_of_type
from endmark.punctuation.json_text import named
from endmark.punctuation.pattern import Equals
from endmark.punctuation.wire_json import pattern_to_json
from support.patterns import POOLS

KINDS = [
    (pa.int64(), POOLS[Domain.LONG]),
    (pa.bool_(), POOLS[Domain.BOOLEAN]),
    (pa.string(), [*POOLS[Domain.STRING], "\x00\n", "a\\", "\x7f"]),
    (pa.date32(), POOLS[Domain.DATE]),
    (pa.timestamp("us", "UTC"), POOLS[Domain.TIMESTAMP]),
    (pa.decimal128(6, 2), [Decimal(text) for text in ("0", "-1.5", "12.50", "100", "1.25", "0.01", "-0.10")]),
    (pa.decimal128(38, 20), [Decimal(text) for text in ("1E-20", "-3E-9", "100", "0", "12.5")]),
]


@pytest.mark.parametrize(
    ("kind", "values"), KINDS, ids=lambda one: str(one) if isinstance(one, pa.DataType) else ""
)
def test_a_column_is_spelled_as_its_values(kind: pa.DataType, values: list[object]) -> None:
    """Whatever the type, with names in order."""
    spelled = named({"b": pa.array(values, kind), 'a"': pa.array(range(len(values)), pa.int64())})

    assert spelled.to_pylist() == [
        json.dumps(
            {
                'a"': {"equals": place},
                "b": pattern_to_json(Equals(value), domain_of_type(kind)),  # type: ignore[arg-type]
            },
            ensure_ascii=False,
        )
        for place, value in enumerate(values)
    ]
