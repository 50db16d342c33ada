"""Announcements of patterns: what is compared, and the reports of several batches in one of the job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from endmark.operators.stream_batch import StreamBatch
from endmark.operators.stream_join.join import StreamJoin
from endmark.operators.stream_join.pattern_reports import Report, aligned
from endmark.operators.stream_join.side import SideSpec
from endmark.punctuation import columns
from endmark.punctuation.pattern import Between, Equals, Pattern
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.state.keys import KeySpec
from endmark.state.store import MemoryBlobs, SegmentStore


def test_waiting_patterns_are_compared_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pattern was compared with all live rows twice a batch: 5,000 with as many rows took 0.4 s."""
    schemas = [
        pa.schema([(f"{name}_{column}", pa.int64()) for column in ("key", "shop", "at")]) for name in "st"
    ]
    sides = [
        SideSpec(
            name,
            KeySpec((f"{name}_key",)),
            f"{name}_at",
            schema,
            None,
            None,
            None,
            punctuated_on=(f"{name}_shop",),
        )
        for name, schema in zip("st", schemas, strict=True)
    ]
    join = StreamJoin(sides[0], sides[1], SegmentStore(MemoryBlobs(), tmp_path))
    compared: list[int] = []

    def counted(patterns: list[Pattern], pieces: Any) -> Any:
        compared.append(len(patterns))
        return columns.matched(patterns, pieces)

    monkeypatch.setattr("endmark.operators.stream_join.announce_patterns.matched", counted)
    shops: list[Pattern] = [Equals(1), Equals(2), Equals(3), Between(5, 7), Between(8, 10)]
    promises = [Punctuation.of("s", {"s_shop": shop}, Origin(0, number)) for number, shop in enumerate(shops)]
    rows = pa.record_batch([[1, 2, 3], [1, 3, 7], [0, 0, 0]], schema=schemas[0])

    list(join.process(StreamBatch(rows=rows, promises=promises), StreamBatch()))

    assert list(join.output.patterns.released) == [
        '{"s_shop": {"equals": 2}}',
        '{"s_shop": {"between": {"from": 8, "to": 10}}}',
    ]
    assert len(join.output.patterns.waiting) == 3
    assert compared == [5]


def test_a_pattern_waits_as_long_as_the_last_step_says() -> None:
    """What an earlier step kept and a later one released is announced; what waits at the end is not."""
    first = Report({"a": "closed"}, ["b", "c"])

    both = first.then(Report({"b": "expired"}, ["c"]))

    assert aligned([vars(both)]) == {"a": "closed", "b": "expired"}
    assert both.waiting == ["c"]
