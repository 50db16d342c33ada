"""Random punctuated streams over tiny domains, for programs of frame steps.

Streams keep their promises; what they say in a batch stands behind its rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from hypothesis import strategies as st

from endmark.domain import Domain
from endmark.punctuation.wire_json import pattern_from_json

DOMAIN: dict[str, tuple[int | None, ...]] = {"a": (0, 1, 2), "b": (0, 1), "c": (None, 0, 1)}
NUMBERS = range(-2, 5)  # what patterns are told apart by
Row = tuple[int | None, ...]


@dataclass(frozen=True)
class ProgramBatch:
    rows: list[Row]
    texts: list[str]


_PATTERNS = st.one_of(
    st.builds(lambda n: {"equals": n}, st.integers(0, 2)),
    st.builds(lambda n: {"equals": n}, st.integers(0, 2)),
    st.builds(lambda ns: {"one_of": sorted(ns)}, st.sets(st.integers(0, 2), min_size=1)),
    st.builds(lambda n: {"between": {"to": n}}, st.integers(0, 1)),
    st.just({"anything": True}),
)
_PROMISES = st.dictionaries(st.sampled_from(list(DOMAIN)), _PATTERNS, min_size=1, max_size=2)
# Of a column that the stream does not have, though a later step may make one of that name; or nothing at all.
_WRONG = st.sampled_from(["{", '{"d": {"equals": 0}}', '{"e": {"between": {}}}', '{"a": {"equals": "x"}}'])


@st.composite
def streams(draw: st.DrawFn, count: int) -> list[ProgramBatch]:
    promised: list[dict[str, frozenset[int]]] = []
    found = []
    for _ in range(count):
        left = possible(promised)
        rows = draw(st.lists(st.sampled_from(left), max_size=4)) if left else []
        texts = draw(st.lists(st.one_of(*[_PROMISES.map(json.dumps)] * 4, _WRONG), max_size=2))
        promised += [promise for text in texts if (promise := meaning(text)) is not None]
        found.append(ProgramBatch(rows, texts))
    return found


def meaning(text: str, columns: Iterable[str] = tuple(DOMAIN)) -> dict[str, frozenset[int]] | None:
    """The numbers that a punctuation of these columns matches in each that it restricts; `None` for any
    other text."""
    try:
        written: dict[str, Any] = json.loads(text)
        patterns = {name: pattern_from_json(each, Domain.LONG) for name, each in written.items()}
    except ValueError:
        return None
    if not patterns.keys() <= set(columns):
        return None
    numbers = {name: frozenset(n for n in NUMBERS if each.matches(n)) for name, each in patterns.items()}
    return {name: each for name, each in numbers.items() if written[name] != {"anything": True}}


def matches(promise: Mapping[str, frozenset[int]], row: Mapping[str, int | None]) -> bool:
    return all(row[name] in numbers for name, numbers in promise.items())


def possible(promised: Sequence[Mapping[str, frozenset[int]]]) -> list[Row]:
    """The rows that a stream may still have."""
    return [
        row
        for row in product(*DOMAIN.values())
        if not any(matches(promise, dict(zip(DOMAIN, row, strict=True))) for promise in promised)
    ]
