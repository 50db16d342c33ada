"""Nexmark's generator: the standard's shares and skew, and promises that no later row breaks."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from endmark_benchmarks.workloads.nexmark.events import (
    ACTIVE,
    AUCTIONS,
    BIDS,
    IN_FLIGHT,
    LEAD,
    PERSONS,
    Generator,
    Span,
)

EVENTS = 100_000
Rows = dict[str, pa.RecordBatch]


@pytest.fixture(scope="module")
def rows() -> Rows:
    return Generator(seed=3).rows(0, EVENTS)


def test_fifty_events_are_a_person_three_auctions_and_46_bids(rows: Rows) -> None:
    assert {name: each.num_rows for name, each in rows.items()} == {
        PERSONS: EVENTS // 50,
        AUCTIONS: 3 * EVENTS // 50,
        BIDS: 46 * EVENTS // 50,
    }
    for name in (PERSONS, AUCTIONS):
        assert rows[name]["id"].to_pylist() == list(range(1_000, 1_000 + rows[name].num_rows))


def test_equal_seeds_give_equal_rows(rows: Rows) -> None:
    assert Generator(seed=3).rows(0, EVENTS) == rows
    assert Generator(seed=4).rows(0, EVENTS)[BIDS] != rows[BIDS]


def test_hot_ones_are_as_hot_as_in_the_standard(rows: Rows) -> None:
    """Every other bid is for one of a hundred auctions, three of four auctions are of a hot seller, and as
    many bids of a hot bidder; the others choose the hot one as often as any."""
    for stream, column, hot, share in (
        (BIDS, "auction", 0, 1 / 2),
        (AUCTIONS, "seller", 0, 3 / 4),
        (BIDS, "bidder", 1, 3 / 4),
    ):
        found = np.mean(rows[stream][column].to_numpy() % 100 == hot)
        assert found == pytest.approx(share + (1 - share) / 100, abs=0.02), column
    categories = Counter(rows[AUCTIONS]["category"].to_pylist())
    assert sorted(categories) == [10, 11, 12, 13, 14]
    assert min(categories.values()) > 0.9 * max(categories.values())
    assert set(rows[PERSONS]["state"].to_pylist()) == {"AZ", "CA", "ID", "OR", "WA", "WY"}


def test_rows_have_the_sizes_and_prices_of_the_standard(rows: Rows) -> None:
    def text_bytes(stream: str, *left_out: str) -> float:
        names = [field.name for field in rows[stream].schema if pa.types.is_string(field.type)]
        sizes = [pc.binary_length(rows[stream][name]).to_numpy() for name in names if name not in left_out]
        return float(np.mean(sum(sizes)))

    assert text_bytes(PERSONS) == pytest.approx(200 - 8, rel=0.02)
    assert text_bytes(AUCTIONS) == pytest.approx(500 - 48, rel=0.02)
    assert text_bytes(BIDS, "channel", "url") == pytest.approx(100 - 32, rel=0.02)
    prices = rows[BIDS]["price"].to_numpy()
    assert 100 <= prices.min() < prices.max() <= 100_000_000
    assert np.median(prices) == pytest.approx(100_000, rel=0.1)


def test_auctions_last_as_long_as_a_hundred_take_to_open(rows: Rows) -> None:
    lengths = pc.subtract(rows[AUCTIONS]["expires"], rows[AUCTIONS]["date_time"]).cast(pa.int64()).to_numpy()
    horizon = IN_FLIGHT * 50 / 3 * 100  # microseconds
    assert lengths.min() >= 1_000
    assert lengths.mean() == pytest.approx(horizon, rel=0.05)
    assert lengths.max() == pytest.approx(2 * horizon, rel=0.05)


def test_a_part_goes_on_where_another_ends(rows: Rows) -> None:
    generator = Generator(seed=3)
    parts = [generator.rows(first, 999) for first in (0, 999, 1_998)]
    for name, columns in ((PERSONS, ["id", "date_time"]), (AUCTIONS, ["id"]), (BIDS, ["date_time"])):
        found = pa.Table.from_batches([part[name] for part in parts]).select(columns).to_pylist()
        assert found == rows[name].select(columns).slice(0, len(found)).to_pylist()


@pytest.mark.parametrize("group", [1, 7, 500, 1_000])
def test_no_later_row_breaks_a_promise(group: int) -> None:
    """After any number of events, and promises are not idle: what they leave open is what may still come."""
    generator, part, parts = Generator(seed=5, group=group), 1_357, 60
    batches = [generator.rows(number * part, part) for number in range(parts)]
    later: dict[tuple[str, str], int] = {}
    for number in range(parts - 1, 0, -1):
        for stream, column in ((PERSONS, "id"), (AUCTIONS, "id"), (AUCTIONS, "seller"), (BIDS, "auction")):
            least = pc.min(batches[number][stream][column]).as_py()
            later[stream, column] = min(later.get((stream, column), least), least)
        for (stream, column), end in ends(generator.promises(number * part)).items():
            assert end < later[stream, column]
            ids = {"seller": ACTIVE, "auction": IN_FLIGHT}.get(column, 1)
            assert later[stream, column] - end <= ids + 100
    assert set(ends(generator.promises(part))) == set(later)


def ends(promises: dict[str, list[str]]) -> dict[tuple[str, str], int]:
    """Return the end of the latest promise, by stream and column."""
    found = {}
    for stream, texts in promises.items():
        for text in texts:
            [(column, pattern)] = json.loads(text).items()
            found[stream, column] = pattern["between"]["to"]
    return found


def test_a_group_comes_out_of_order_and_whole() -> None:
    generator = Generator(group=1_000)
    bids = generator.rows(0, 3_000)[BIDS]["date_time"].to_numpy()
    in_order = Generator().rows(0, 3_000)[BIDS]["date_time"].to_numpy()
    assert (bids != in_order).any()
    assert sorted(bids) == sorted(in_order)
    assert max(np.maximum.accumulate(bids) - bids) < np.timedelta64(100, "ms")


@pytest.mark.parametrize("rate", [100, 10_000])
def test_rows_are_no_farther_from_what_they_speak_of_than_a_span(rate: int) -> None:
    """Some rows come before their person or auction, by up to `LEAD` ids."""
    found = Generator(rate=rate).rows(0, EVENTS)
    for speaking, column, about in ((AUCTIONS, "seller", PERSONS), (BIDS, "auction", AUCTIONS)):
        known: dict[int, Any] = dict(
            zip(found[about]["id"].to_pylist(), found[about]["date_time"].to_pylist(), strict=True)
        )
        pairs = zip(
            found[speaking][column].to_pylist(), found[speaking]["date_time"].to_pylist(), strict=True
        )
        apart = [at - known[each] for each, at in pairs if each in known]
        span = Span.of(about, rate)
        assert -timedelta(milliseconds=span.before) <= min(apart) < timedelta(0)
        assert timedelta(milliseconds=span.after) >= max(apart) > timedelta(milliseconds=span.after) * 0.7
    assert LEAD == 10
