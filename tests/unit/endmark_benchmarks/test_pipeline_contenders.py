"""Contenders of the whole pipeline: their results are those of a plain loop, and what Flink is asked."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from endmark_benchmarks.contenders import pipeline_flink
from endmark_benchmarks.harness.contest import Digest, in_process
from endmark_benchmarks.harness.delta import result_digests
from endmark_benchmarks.workloads import recorded, stream_input
from endmark_benchmarks.workloads.auction import MEASURED, figures_of, sellers, workload
from endmark_benchmarks.workloads.recorded import Recorded
from endmark_feed.relation import seed_relation
from endmark_feed.workload import messages

DUCKDB = "endmark_benchmarks.contenders.pipeline_duckdb"


def prime(*numbers: int) -> int:
    return sum(weight * number for weight, number in zip((1, 31, 97, 1009), numbers, strict=False)) % (
        2**31 - 1
    )


def micros(stamp: str) -> int:
    return round(datetime.fromisoformat(stamp).replace(tzinfo=UTC).timestamp() * 1e6)


def product(bid: dict[str, Any], item: dict[str, Any], seller: dict[str, Any]) -> int:
    left = prime(bid["bid_id"], micros(bid["bid_at"]), bid["item_id"], round(100 * bid["price"]))
    right = prime(item["seller_id"], micros(item["listed_at"]), round(100 * item["start_price"]))
    of_seller = prime(len(seller["name"]), len(seller["country"]), round(100 * seller["rating"]))
    whole = prime(right, item["item_id"], len(item["category"]), of_seller)
    return prime(left, bid["seller_id"], bid["bidder_id"]) * whole


def digest(products: list[int]) -> Digest:
    return Digest(len(products), *(sum(each % by for each in products) for by in (2**32 - 5, 2**32 - 17)))


@pytest.fixture(scope="module")
def auction(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The texts of an auction of 90 seconds, and the URL of its sellers."""
    directory = tmp_path_factory.mktemp("auction")
    feed = workload(90.0, 100.0, 300)
    of = Recorded(directory / "recording", {"items": 4, "bids": 4}, partial(messages, feed), lambda _: 0)
    url = f"sqlite:///{directory / 'sellers.db'}"
    seed_relation(url, feed.sellers, feed.seed)
    said: list[str] = []
    texts = recorded.texts(of, said.append)
    assert recorded.texts(of, said.append) == texts
    assert len(said) == 1  # the second time they are there
    return texts, url


def test_duckdb_gives_the_results_of_a_plain_loop(auction: tuple[Path, str]) -> None:
    texts, url = auction
    rows = {
        name: [row for line in (texts / f"{name}.json").open() if "item_id" in (row := json.loads(line))]
        for name in ("items", "bids")
    }
    items = defaultdict(list)
    for item in rows["items"]:
        items[item["item_id"]].append(item)
    known = {seller["seller_id"]: seller for seller in sellers(url)}
    asked = [bid for bid in rows["bids"] if bid["seller_id"] in known]
    near, far = 10_000_000, 60_000_000
    products = [
        product(bid, item, known[bid["seller_id"]])
        for bid in asked
        for item in items[bid["item_id"]]
        if -near <= micros(bid["bid_at"]) - micros(item["listed_at"]) <= far
    ]
    task = {
        "contender": "duckdb",
        "servers": {"bootstrap": "", "relation_url": url},
        "measured": MEASURED.to_json(),
        "texts": str(texts),
        "records": 9_000,
    }

    [found] = in_process(DUCKDB, task)

    assert [Digest(*each) for each in found["given"]] == [digest(products)]
    assert len(products) > 5_000
    assert len(asked) < len(rows["bids"])  # some sellers are unknown
    assert found["rate"] > 0


def test_files_have_both_digests(tmp_path: Path, auction: tuple[Path, str]) -> None:
    """Plain files have two digests. A place in Kafka changes only the one by hashes, not that by sums."""
    pipeline = MEASURED.load(auction[1])
    values = {
        "long": pa.array([7]),
        "double": pa.array([1.25]),
        "string": pa.array(["ö"]),
        "timestamp": pa.array([1_000_001], pa.timestamp("us", "UTC")),
    }
    row = pa.table({name: values[str(kind)] for name, kind in pipeline.result_columns().items()})
    moved = row.set_column(row.schema.get_field_index("bids_kafka_offset"), "bids_kafka_offset", [[8]])
    digests = []
    for number, table in enumerate((row, moved)):
        pq.write_table(table, tmp_path / str(number))
        sums = figures_of(lambda time: f"epoch_us({time})")
        digests.append(result_digests(pipeline, [str(tmp_path / str(number))], sums))

    (summed, hashed), (summed_moved, hashed_moved) = digests
    seller = prime(1, 1, 125)
    whole = prime(prime(7, 1_000_001, 125), 7, 1, seller)
    expected = prime(prime(7, 1_000_001, 7, 125), 7, 7) * whole
    assert summed == summed_moved == digest([expected])
    assert hashed != hashed_moved


def test_flink_is_asked_for_every_column_of_the_results(auction: tuple[Path, str]) -> None:
    pipeline = MEASURED.load(auction[1])
    url = "mysql+pymysql://me:s-e_c@127.0.0.1:3307/shop"

    items, bids, relation, matched = pipeline_flink.tables(pipeline, "127.0.0.1:9092", url)

    assert "category STRING, start_price DOUBLE, listed_at TIMESTAMP_LTZ(6), kafka_partition INT" in items
    assert "'topic' = 'bids', 'properties.bootstrap.servers' = '127.0.0.1:9092'" in bids
    assert "'table-name' = 'sellers'" in relation
    assert "'lookup.partial-cache.max-rows' = '100000'" in relation
    assert [matched.count(f" AS {column}") for column in pipeline.result_columns()] == [1] * 18


def test_pathway_reads_the_same_rows_as_text(tmp_path: Path) -> None:
    stream_input.record(tmp_path / "streams", files=2, rows=10)

    found = sorted(stream_input.texts(tmp_path / "streams", "b").iterdir())

    rows = pq.read_table(tmp_path / "streams" / "b" / "0001.parquet")
    heading, first, *rest = found[1].read_text().splitlines()
    k, us, v, p = (rows[name][0].as_py() for name in ("k", "ts", "v", "p"))
    assert (len(found), heading, len(rest)) == (2, '"k","us","v","p"', 9)
    assert first == f'{k},{round(us.timestamp() * 1e6)},{v},"{p}"'
