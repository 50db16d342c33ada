"""What Nexmark's contenders are given: recorded files with promises, and queries that mean the same."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from endmark.errors import ConfigError
from endmark_benchmarks.contenders.nexmark_duckdb import MICROS, loaded
from endmark_benchmarks.measurements.nexmark import NexmarkOptions
from endmark_benchmarks.workloads.nexmark.events import AUCTIONS, BIDS, PERSONS, SHARES, Generator
from endmark_benchmarks.workloads.nexmark.queries import QUERIES
from endmark_benchmarks.workloads.nexmark.record import OVER, SIDE_ROWS, Recording


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    place = tmp_path_factory.mktemp("nexmark") / "recording"
    recording = Recording(place, Generator(rate=1_000), batches=3, batch_events=20_000)
    recording.make()
    return recording


def test_a_file_ends_with_what_is_over(recording: Recording) -> None:
    """A batch is two files of each stream, which are read in the order of their age."""
    for name, share in SHARES.items():
        files = sorted(recording.stream(name).iterdir())
        assert len(files) == recording.batches * recording.files_per_batch
        assert files == sorted(files, key=lambda file: file.stat().st_mtime)
        for number, file in enumerate(files, 1):
            texts = pq.read_table(file)[OVER].to_pylist()
            rows = 10_000 * share // 50
            assert texts[:rows] == [None] * rows
            assert texts[rows:] == recording.generator.promises(10_000 * number)[name]
    assert recording.rows([PERSONS, BIDS]) == 20_000 * 47 // 50
    assert Recording.of(json.loads(json.dumps(recording.to_json()))) == recording


@pytest.mark.parametrize("name", QUERIES)
def test_bounds_on_time_change_no_answer(recording: Recording, name: str) -> None:
    query = QUERIES[name]
    figures = ", ".join(query.figures(MICROS))
    with loaded(recording, query.streams) as at_once:
        standard, bounded = (
            at_once.sql(f"SELECT {figures} FROM ({sql})").fetchall()  # noqa: S608
            for sql in (query.standard(MICROS), query.bounded(recording, MICROS))
        )
    assert standard == bounded
    assert standard[0][0] > 100


@pytest.mark.parametrize("name", QUERIES)
def test_a_digest_speaks_of_every_column(recording: Recording, name: str) -> None:
    """A digest of a single answer changes with each column, so no change makes up for another."""
    query = QUERIES[name]
    with loaded(recording, query.streams) as at_once:
        answers = at_once.sql(f"FROM ({query.standard(MICROS)}) LIMIT 1").to_arrow_table()
        at_once.register("answers", answers)
        figures = ", ".join(query.figures(MICROS))

        def digest(changed: str) -> list[tuple[int, ...]]:
            rows = at_once.sql(f"SELECT {figures} FROM (SELECT {changed} FROM answers)")  # noqa: S608
            return list(rows.fetchall())

        for field in answers.schema:
            other = "|| 'x'" if str(field.type) == "string" else "+ 1"
            if str(field.type).startswith("timestamp"):
                other = "+ INTERVAL 1 MILLISECOND"
            if field.name == "value":
                other = "|| '1'"
            assert digest(f"* REPLACE ({field.name} {other} AS {field.name})") != digest("*"), field.name


def test_an_auction_is_settled_long_before_the_end(recording: Recording) -> None:
    with loaded(recording, [AUCTIONS, BIDS]) as at_once:
        about = at_once.sql(f"SELECT max(date_time) FROM bids WHERE auction < {recording.settled}")  # noqa: S608
        last = at_once.sql("SELECT max(date_time) FROM bids")
        [(settled,)], [(end,)] = about.fetchall(), last.fetchall()
    assert 3 < (end - settled).total_seconds() < 20
    assert recording.settled > 2_000


def test_the_side_input_is_a_table_too(recording: Recording) -> None:
    assert pq.read_table(recording.side_rows).slice(7, 1).to_pylist() == [{"key": 7, "value": "7"}]
    assert pq.read_metadata(recording.side_rows).num_rows == SIDE_ROWS


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("queries", ("q5",), "--query: 'q5' is not one of q3, q4, q8, q13, q20"),
        ("contenders", ("flink",), "--contender: 'flink' is not one of endmark"),
        ("batch_events", 150, "--batch-events: 150 is no multiple of 100"),
    ],
)
def test_what_cannot_be_measured_is_refused(option: str, value: object, said: str) -> None:
    options = {
        "queries": ("q3",),
        "batches": 3,
        "batch_events": 1_000,
        "rate": 1_000,
        "repeats": 1,
        "contenders": (),
        "directory": Path(),
    }
    with pytest.raises(ConfigError, match=said):
        NexmarkOptions(**options | {option: value})  # type: ignore[arg-type]
