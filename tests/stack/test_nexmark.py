"""Nexmark's queries on frames, with events out of order: DuckDB's answers, and state that promises free."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from endmark_benchmarks.contenders.nexmark_duckdb import MICROS, loaded
from endmark_benchmarks.contenders.nexmark_run import ours
from endmark_benchmarks.workloads.nexmark.events import AUCTIONS, BIDS, Generator
from endmark_benchmarks.workloads.nexmark.queries import QUERIES
from endmark_benchmarks.workloads.nexmark.record import Recording
from support.delta_batches import rows_by_batch

# The columns of answers that are over up to some id, and by which promise at the latest.
ANNOUNCED = {
    "q3": {"id": (AUCTIONS, "id")},
    "q4": {"id": (BIDS, "auction")},
    "q8": {"id": (AUCTIONS, "seller")},
    "q13": {"auction": (BIDS, "auction")},
    "q20": {"auction": (BIDS, "auction"), "seller": (AUCTIONS, "seller")},
}
BATCHES = 4
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Files end in the middle of groups that are out of order."""
    place = tmp_path_factory.mktemp("nexmark") / "recording"
    recording = Recording(place, Generator(seed=2, rate=1_000, group=700), BATCHES, 20_000)
    recording.make()
    return recording


@pytest.mark.parametrize("name", QUERIES)
def test_answers_are_those_of_all_rows_at_once(
    spark: SparkSession, recording: Recording, name: str, tmp_path: Path
) -> None:
    """No row comes late or breaks a promise, and no answer follows a punctuation that matches it. What is
    announced lets go of all but what is in flight, so state does not grow."""
    frame = ours(spark, name, recording)
    query = frame.write_delta(
        tmp_path / "answers",
        tmp_path / "checkpoint",
        punctuations=tmp_path / "over",
        dead_letters=tmp_path / "dead_letters",
        violations=tmp_path / "violations",
        available_now=True,
    )
    query.awaitTermination()

    answers, over = rows_by_batch(tmp_path / "answers"), rows_by_batch(tmp_path / "over")
    announced = last_ends(answers, over)
    # The last batch's may wait for rows that are not there yet.
    promised = recording.generator.promises((BATCHES - 1) * recording.batch_events)
    assert announced.keys() == ANNOUNCED[name].keys()
    for column, (stream, of) in ANNOUNCED[name].items():
        assert announced[column] >= ends(promised[stream])[of], column
    assert rows_by_batch(tmp_path / "dead_letters") == rows_by_batch(tmp_path / "violations") == {}

    asked = QUERIES[name]
    final = f"id <= {announced['id']}" if asked.groups else "true"
    with loaded(recording, asked.streams) as at_once:
        sql = f"FROM ({asked.standard(MICROS)}) WHERE {final}"
        expected = at_once.sql(sql).to_arrow_table()
    assert frame.columns == expected.column_names
    assert counted(chain(*answers.values())) == counted(expected.to_pylist())


def last_ends(answers: Mapping[int, Rows], over: Mapping[int, Rows]) -> dict[str, int]:
    """Return the last announced end of each column, and assert that no later answer lies before it."""
    announced: dict[str, int] = {}
    for number in range(max(*answers, *over) + 1):
        for column, end in announced.items():
            assert all(row[column] > end for row in answers.get(number, ()))
        announced |= ends(row["punctuation"] for row in over.get(number, ()))
    return announced


def counted(rows: Iterable[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    def whole(value: Any) -> Any:
        """Times are of whole milliseconds; a table's files have them without their zone."""
        return round(value.timestamp() * 1_000) if isinstance(value, datetime) else value

    return Counter(tuple(map(whole, row.values())) for row in rows)


def ends(texts: Iterable[str]) -> dict[str, int]:
    """Return the announced end of each column, without keys that are announced before their range."""
    found: dict[str, int] = {}
    for text in texts:
        [(column, pattern), *others] = json.loads(text).items()
        if not others:
            found[column] = max(found.get(column, 0), pattern["between"]["to"])
    return found
