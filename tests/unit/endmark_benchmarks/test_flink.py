"""What the bench makes of Flink and of its input, without running Flink."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from endmark.errors import ConfigError, EndmarkError
from endmark_benchmarks.contenders import flink, lookup_flink, stream_flink
from endmark_benchmarks.contenders.flink import Said
from endmark_benchmarks.harness.contest import Digest, in_process
from endmark_benchmarks.measurements import stream_join
from endmark_benchmarks.measurements.stream_join import CONTENDERS, StreamJoinOptions
from endmark_benchmarks.workloads import stream_input

FILES, ROWS = 3, 5_000


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("bench") / "streams"
    stream_input.record(directory, FILES, ROWS)
    return directory


def read(recorded: Path, stream: str) -> pa.Table:
    return pa.concat_tables(pq.read_table(file) for file in sorted((recorded / stream).iterdir()))


@pytest.mark.parametrize("stream", ["a", "b"])
def test_flink_reads_the_same_rows_from_two_files_in_order(recorded: Path, stream: str) -> None:
    first, second = (pq.read_table(recorded / f"{stream}-halves" / f"{half}.parquet") for half in (0, 1))
    whole = read(recorded, stream)

    assert first.num_rows == second.num_rows == FILES * ROWS // 2
    assert all(half["us"].to_pylist() == sorted(half["us"].to_pylist()) for half in (first, second))
    halves = pa.concat_tables([first, second]).sort_by("us")
    assert halves["us"].to_pylist() == pc.cast(whole["ts"], pa.int64()).to_pylist()
    assert halves.drop("us") == whole.drop("ts")


def test_duckdb_joins_what_is_within_the_window(recorded: Path) -> None:
    rights = defaultdict(list)
    for row in read(recorded, "b").to_pylist():
        rights[row["k"]].append(coded(row))
    pairs = [(coded(left), right) for left in read(recorded, "a").to_pylist() for right in rights[left["k"]]]
    task = {"contender": "duckdb", "directory": str(recorded), "files": FILES, "rows": ROWS}

    [figures] = in_process(CONTENDERS["duckdb"], task)

    # Three seconds are all within ten of each other.
    products = [left * right for left, right in pairs]
    assert figures["given"] == [
        len(pairs),
        *(sum(each % by for each in products) for by in (2**32 - 5, 2**32 - 17)),
    ]
    assert len(pairs) > 50
    assert figures["rate"] > 0


def coded(row: dict[str, Any]) -> int:
    micros = round(row["ts"].timestamp() * 1e6)
    weighted: int = row["v"] + 31 * micros + 97 * row["k"] + 1009 * int(row["p"][8:])
    return weighted % (2**31 - 1)


def test_answers_are_heard_until_the_end() -> None:
    heard = flink._Heard()
    for line in (
        "+I[0, 1, 2, 3]",
        "warning",
        "2> -U[0, 1, 2, 3]",
        "2> +U[0, 4, 5, 6]",
        flink._END,
        "+I[1, 1, 1, 1]",
    ):
        heard.write(line + "\n")

    found = list(heard.until_the_end())

    assert [each[1:] for each in found] == [(0, Digest(1, 2, 3)), (0, Digest(4, 5, 6))]
    assert flink.total(found) == Digest(4, 5, 6)


def said(*told: tuple[float, int, int]) -> list[Said]:
    return [Said(seconds, part, Digest(answers, answers, answers)) for seconds, part, answers in told]


def test_a_part_counts_as_it_was_told_of_last() -> None:
    assert flink.total(said((1, 0, 3), (2, 1, 4), (3, 0, 5))) == Digest(9, 9, 9)


def test_the_clock_of_a_stream_join_starts_when_the_first_third_is_whole() -> None:
    told = said((1, 0, 1), (2, 1, 1), (3, 2, 1), (4, 1, 2), (5, 3, 1), (9, 5, 1))

    # Of six files of both streams, four are left when part 1 is told of last.
    assert stream_flink.rate(told, files=6, rows=100) == 2 * 4 * 100 / (9 - 4)


def test_the_clock_of_a_lookup_starts_after_as_many_rows_as_a_first_batch() -> None:
    told = said((1, 0, 10), (2, 0, 30), (3, 0, 40), (7, 0, 100))

    assert lookup_flink.rate(told, warm_up=0.2) == (100 - 30) / (7 - 2)


def test_answers_that_all_come_at_once_have_no_rate() -> None:
    with pytest.raises(EndmarkError, match="give it more records"):
        lookup_flink.rate(said((1, 0, 100)), warm_up=0.2)


def test_flink_finds_the_relation_where_endmark_does() -> None:
    made = lookup_flink.relation(
        "mysql+pymysql://me:s-e_c@127.0.0.1:3307/shop", lookup_flink.CACHES["flink-lookup"]
    )

    assert "'url' = 'jdbc:mysql://127.0.0.1:3307/shop?permitMysqlScheme'" in made
    assert "'username' = 'me', 'password' = 's-e_c', 'table-name' = 'r', 'lookup.cache' = 'NONE'" in made


def test_an_unknown_contender_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'flnk' is not one of endmark, spark-rocksdb"):
        StreamJoinOptions(3, 10, (1,), 1, ("endmark", "flnk"), tmp_path)


def test_who_has_no_batches_runs_once_for_all_sizes_of_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    turns: list[tuple[str, int]] = []

    def run(_: str, task: dict[str, Any]) -> list[dict[str, Any]]:
        turns.append((task["contender"], task["files_per_batch"]))
        return [{"given": [7, 1, 1], "rate": 100 * len(turns)}]

    monkeypatch.setattr(stream_join, "in_process", run)
    monkeypatch.setattr(stream_join, "local_jars", lambda _: [])
    monkeypatch.setattr(stream_join, "flink_jars", lambda _: [])
    options = StreamJoinOptions(3, 10, (1, 3), 1, ("spark-rocksdb", "flink-heap"), tmp_path)

    small, large = stream_join.measure(options, print)["cells"]

    assert turns == [
        ("endmark", 1),
        ("spark-rocksdb", 1),
        ("flink-heap", 1),
        ("endmark", 3),
        ("spark-rocksdb", 3),
    ]
    assert (small["title"], large["title"]) == ("batches of 20 rows", "batches of 60 rows")
    assert {name: each["runs"] for name, each in large["contenders"].items()} == {
        "endmark": (400,),
        "spark-rocksdb": (500,),
        "flink-heap": (300,),
    }
