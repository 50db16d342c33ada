"""The promises that violations name."""

from __future__ import annotations

from typing import Any

import pytest

from endmark.verify.judge import broken_promises
from endmark.verify.promises.spans import spans_of
from support.verify_recompute import recomputed
from support.verify_world import bid, make_pipeline, promise


def test_each_pattern_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All patterns of a partition were read for each of its violations."""
    read: list[Any] = []

    def counted(*arguments: Any) -> Any:
        read.append(arguments)
        return spans_of(*arguments)

    monkeypatch.setattr(broken_promises, "spans_of", counted)
    records = []
    for number in range(20):
        partition, low = number % 2, 10 * number
        records.append(promise("bids", {"item_id": {"between": {"from": low, "to": low + 3}}}, partition))
        records.append(bid(low, number, partition=partition))
    with recomputed(make_pipeline(), records) as session:
        found = session.run(
            "SELECT promise, promise_offset FROM broken_bids ORDER BY partition, promise_offset"
        )

    assert [row["promise_offset"] for row in found] == 2 * [*range(0, 20, 2)]
    assert found[1]["promise"] == '{"item_id": {"between": {"from": 20, "to": 23}}}'
    assert len(read) == 20
