"""What the bench records, and the digests that answers are held to."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq

from endmark_benchmarks.harness.contest import Digest
from endmark_benchmarks.harness.digest import code, figures
from endmark_benchmarks.workloads.lookup_input import STREAMS, Recorded, Sizes, in_memory, record


def digest_of(pairs: Iterable[tuple[int, int]]) -> Digest:
    """Return the digest of answers from the numbers that both sides are coded from."""
    products = [(left % 2_147_483_647) * (right % 2_147_483_647) for left, right in pairs]
    return Digest(
        len(products), *(sum(each % by for each in products) for by in (4_294_967_291, 4_294_967_279))
    )


def test_a_digest_tells_who_is_paired_with_whom() -> None:
    with in_memory() as connection:
        connection.execute(
            "CREATE TABLE pairs AS FROM (VALUES (1, 5, 7), (1, 6, 8), (2, 5, 8), (2, 6, 7)) AS t(n, a, b)"
        )
        sums = ", ".join(figures(code("a"), code("b", "n * 9000000000000")))
        found = connection.execute(f"SELECT {sums} FROM pairs GROUP BY n ORDER BY n").fetchall()  # noqa: S608
    given = [Digest(*row) for row in found]
    far = 31 * 9_000_000_000_000
    assert given[0] == digest_of([(5, 7 + far), (6, 8 + far)])
    assert given[1] == digest_of([(5, 8 + 2 * far), (6, 7 + 2 * far)])
    assert digest_of([(5, 7), (6, 8)])[1:] != digest_of([(5, 8), (6, 7)])[1:]


def test_recorded_digests_are_of_an_answer_for_each_row(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path / "recorded")
    record(recorded, Sizes(stream=2_500, file=1_000, relation=100))

    for name in STREAMS:
        files = sorted(recorded.stream(name).iterdir())
        streams = [pq.read_table(file).to_pydict() for file in files]
        assert [len(each["id"]) for each in streams] == [1_000, 1_000, 500]
        # A row of R has its key as name, as twice the price, and a pad of 70.
        pairs = [
            [
                (row + 31 * key, key + 31 * key + 97 * 70)
                for row, key in zip(each["id"], each["key"], strict=True)
            ]
            for each in streams
        ]
        assert recorded.digest(name, 2) == Digest.total(map(digest_of, pairs[:2]))
        assert recorded.digest(name, 3) == Digest.total(map(digest_of, pairs))
    keys = [recorded.stream(name) / "00000.parquet" for name in STREAMS]
    uniform, zipf = (len(set(pq.read_table(file)["key"].to_pylist())) for file in keys)
    assert zipf < uniform <= 100


def test_duckdb_draws_nothing_into_a_report() -> None:
    with in_memory() as connection:
        [drawn] = connection.execute("SELECT current_setting('enable_progress_bar')").fetchall()
    assert drawn == (False,)


def test_digests_are_kept_by_file(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path)
    assert not recorded.whole

    recorded.keep_digests({name: [Digest(1, 2, 3), Digest(4, 5, 6), Digest(7, 8, 9)] for name in STREAMS})

    assert recorded.whole
    assert recorded.digest("zipf", 2) == (5, 7, 9)
