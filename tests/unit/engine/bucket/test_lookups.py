"""Several lookups of a pipeline, on one stream or both, or none."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from functools import partial
from pathlib import Path
from threading import Barrier, Lock
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from endmark.control.tuning.knobs import filed, steps_of
from endmark.driver.checkpoint import claimed, pin
from endmark.driver.settings import settings
from endmark.errors import ConfigError
from endmark.metrics import add
from endmark.operators.lookup.gate import side_by_side
from endmark.pipeline import Pipeline
from endmark.planning.lookup_forecast import forecast
from endmark.relation.contract import KeyRange
from endmark.state.store import MemoryBlobs, SegmentStore
from endmark.verify.judge.classify import classify
from endmark.verify.read.relation import load_relations
from endmark.verify.session import Session
from endmark.verify.verification import load_records
from support.bucket_tasks import BucketTasks, Tables, total
from support.memory_relation import MemoryRelation
from support.verify_others import OTHERS, seed_others
from support.verify_places import seed_sellers, to_kafka
from support.verify_recompute import SELLERS, recomputed, require_within, sellers_of
from support.verify_world import PARTITIONS, Record, bid, close, item, locate, make_pipeline

BADGES = {"badges": {"stream": "bids", "cardinality": "many_to_many"}}
RANKS = {"ranks": {"stream": "bids"}}
REFUSING = {"ranks": {"stream": "bids", "miss": "dead_letter"}}


def run(tasks: BucketTasks, *records: Record) -> Tables:
    return tasks.batch(locate(records))


def tasks_of(pipeline: Pipeline, directory: Path) -> BucketTasks:
    return BucketTasks(pipeline, sellers_of(pipeline), PARTITIONS, directory, others=OTHERS)


def test_a_row_has_what_every_relation_has(tmp_path: Path) -> None:
    """With several matches here and several there it is as many rows as there are of both."""
    others = {**BADGES, "ranks": {"stream": "items", "miss": "nulls"}}
    pipeline = make_pipeline(lookup="items", looking={"cardinality": "many_to_many"}, others=others)
    records = [
        item(0, 1, seller=1),
        item(0, 1, seller=2),
        *(bid(0, 1, seller=seller) for seller in (1, 2, 3)),
    ]

    found = run(tasks_of(pipeline, tmp_path), *records)

    shown = Counter(
        (row["items_seller_id"], row["ranks_rank"], row["sellers_name"], row["badges_rank"])
        for row in found["results"]
    )
    badges = {"new": 2, "odd": 1, "old": 1}  # bid 0 has each, bid 1 the new one, bid 2 none and is dropped
    sellers = [((1, "first", "Ann"), 1), ((1, "first", "Anna"), 1), ((2, None, "Bo"), 2)]
    assert shown == {
        (*seller, badge): times * among for seller, times in sellers for badge, among in badges.items()
    }
    assert list(found["results"][0]) == list(pipeline.result_columns())
    with recomputed(pipeline, records, found=found) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize(
    ("miss", "said"),
    [
        ("drop", {1: "ranks"}),
        ("nulls", {1: "ranks", 3: "ranks"}),
        ("dead_letter", {1: "ranks", 2: "sellers", 3: "sellers"}),
    ],
)
def test_the_first_that_gives_a_row_up_decides(tmp_path: Path, miss: str, said: dict[int, str]) -> None:
    """Seller 2 has no rank, 4 is none, 5 is neither."""
    pipeline = make_pipeline(looking={"miss": miss}, others=REFUSING)
    records = [bid(0, at, seller=seller) for at, seller in enumerate([1, 2, 4, 5], 1)]

    found = run(tasks_of(pipeline, tmp_path), *records, item(0, 1))

    assert {letter["offset"]: letter["error"].split()[0] for letter in found["dead_letters"]} == said
    with recomputed(pipeline, [*records, item(0, 1)], found=found) as session:
        require_within(session, pipeline)


def test_relations_are_read_side_by_side(tmp_path: Path) -> None:
    """Those of one stream and those of both: no read ends before all of them have begun."""
    by_page = {"strategy": "hybrid"}
    others = {"badges": BADGES["badges"] | by_page, "ranks": {"stream": "items"} | by_page}
    tasks = tasks_of(make_pipeline(looking=by_page, others=others), tmp_path)
    together, read = Barrier(3), MemoryRelation.pages

    def slowly(relation: MemoryRelation, ranges: list[KeyRange]) -> pa.RecordBatch:
        together.wait(timeout=60)
        return read(relation, ranges)

    with patch.object(MemoryRelation, "pages", slowly):
        found = run(tasks, item(0, 1), bid(0, 1))

    assert len(found["results"]) == 3


def test_the_store_is_asked_by_one_at_a_time(tmp_path: Path) -> None:
    """Spark's takes requests and answers by one socket."""

    class Alone(MemoryBlobs):
        busy = Lock()

        def put(self, blob_id: str, data: bytes) -> None:
            assert self.busy.acquire(blocking=False)
            time.sleep(0.01)
            super().put(blob_id, data)
            self.busy.release()

    store, rows = SegmentStore(Alone(), tmp_path), pa.record_batch({"id": [1]})
    kept = side_by_side([partial(store.add, rows) for _ in range(4)])

    assert [store.load(segment).num_rows for segment, _ in kept] == [1] * 4


def test_parked_rows_of_one_hold_back_the_others(tmp_path: Path) -> None:
    """No batch is called for before the relation is to be asked again."""
    park = {"park": {"delay": "1h", "attempts": 2}}
    tasks = tasks_of(make_pipeline(looking={"miss": park}, others=RANKS), tmp_path)

    found = run(tasks, item(0, 1), bid(0, 1, seller=4), bid(0, 1, seller=1))

    (least,) = [report["least"] for report in tasks.reports if report.get("least")]
    assert least["batch_due_time_seconds"] == least["lookup_waiting_time_seconds"] + 3600
    assert found["results"] == []


def test_there_may_be_none(tmp_path: Path) -> None:
    """Rows are joined as they are."""
    usual = make_pipeline(measures={"bids": "count"})
    document = usual.model_dump(exclude={"relations"})
    del document["steps"]["known"]
    document["steps"]["matched"] |= {"join": ["items", "bids"], "window": "5s"}
    pipeline = Pipeline.model_validate(document)
    records = [item(0, 1), bid(0, 1), close("items", 0), close("bids", 0)]

    found = run(BucketTasks(pipeline, [], PARTITIONS, tmp_path), *records)

    assert [row["bids"] for row in found["groups"]] == [1]
    assert not [name for name in filed(steps_of(pipeline)) if ".lookup." in name]
    with recomputed(pipeline, records, found=found) as session:
        require_within(session, pipeline)
    with pytest.raises(ConfigError, match="by --relation; there are: none"):
        forecast(pipeline, None, None, 1, 0.0)


def test_each_has_its_knobs(tmp_path: Path) -> None:
    """By the name of its step; a turn of one leaves the other as it is."""
    others = {"ranks": {"stream": "bids", "strategy": "mesh"}}
    pipeline = make_pipeline(looking={"strategy": "hybrid"}, others=others)
    turn = json.dumps({"set": {"steps.of_ranks.lookup.strategy": "batched"}, "by": "Ann"}).encode()
    records = [Record(pipeline.control_topic, 0, turn), bid(0, 1), bid(0, 1)]
    located = locate(records)
    tasks = tasks_of(pipeline, tmp_path)
    found = []
    for batch in (located[:1], located[1:]):
        found.append(tasks.batch(batch))
        samples = add(report["samples"] for report in tasks.reports)

    lists = [samples[f"lookup_reads_total{{by=list,relation={relation}}}"] for relation in pipeline.relations]
    pages = [samples[f"lookup_reads_total{{by=page,relation={relation}}}"] for relation in pipeline.relations]
    assert (lists, pages) == ([0, 1], [1, 0])
    knobs = filed(steps_of(pipeline))
    assert {name: value for name, value in knobs.items() if ".lookup." in name} == {
        "steps.known.lookup.strategy": "hybrid",
        "steps.known.lookup.page_rows": 500,
        "steps.known.lookup.time_per_batch": None,
        "steps.known.lookup.memory": 64_000_000,
        "steps.of_ranks.lookup.strategy": "mesh",
        "steps.of_ranks.lookup.page_rows": 500,
        "steps.of_ranks.lookup.time_per_batch": None,
        "steps.of_ranks.lookup.memory": 64_000_000,
    }
    with recomputed(pipeline, records, found=total(found)) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize(
    ("lookups", "says"),
    [
        (
            {"known": {}, "again": {"stream": "items"}},
            "steps.known.lookup.relation: 'sellers' is looked up twice; declare it once more under another",
        ),
        ({}, "relations.sellers: no lookup asks it"),
        ({"known": {"stream": "offers"}}, "steps.known.from: 'offers' is not one of streams or steps: items"),
        ({"known": {"key": "price"}}, "steps.known.lookup.key: column 'price' is double, but must be long"),
        ({"known": {"miss": "wait"}}, "steps.known.[lookup].lookup.miss"),
    ],
)
def test_what_is_wrong_is_named(lookups: dict[str, dict[str, Any]], says: str) -> None:
    document = make_pipeline().model_dump()
    document["steps"] = {"matched": document["steps"]["matched"], "by_key": document["steps"]["by_key"]}
    ends = {"items": "items", "bids": "bids"}
    for name, fields in lookups.items():
        lookup = {"relation": "sellers", "key": "seller_id", "stream": "bids", **fields}
        stream = lookup.pop("stream")
        document["steps"][name] = {"from": stream, "lookup": lookup}
        ends[stream] = name
    document["steps"]["matched"] |= {"join": [ends["items"], ends["bids"]], "window": None}

    with pytest.raises(ValueError, match=re.escape(says)):
        Pipeline.model_validate(document)


def test_columns_of_relations_have_names_of_their_own() -> None:
    """Two of one side, too."""
    document = make_pipeline(others=RANKS).model_dump()
    ranks = document["relations"]["ranks"]
    document["relations"] |= {
        name: ranks | {"columns": {"seller_id": "long", column: "long"}}
        for name, column in (("ranks", "of_rank"), ("ranks_of", "rank"))
    }
    end = document["steps"]["matched"]["join"][1]
    lookup = document["steps"]["of_ranks"]["lookup"] | {"relation": "ranks_of"}
    document["steps"]["more"] = {"from": end, "lookup": lookup}
    document["steps"]["matched"] |= {"join": ["items", "more"], "window": None}

    with pytest.raises(
        ValueError, match="columns 'ranks_of_rank' and 'ranks_of_rank' are one to Spark and Delta"
    ):
        Pipeline.model_validate(document)


def test_relations_and_streams_have_names_of_their_own() -> None:
    document = make_pipeline().model_dump()
    document["relations"]["items"] = document["relations"].pop("sellers")
    document["steps"]["known"]["lookup"] |= {"relation": "items"}

    with pytest.raises(ValueError, match=r"relations\.items: a stream has this name, too"):
        Pipeline.model_validate(document)


def test_a_checkpoint_is_of_its_lookups(tmp_path: Path) -> None:
    one, two = make_pipeline(), make_pipeline(others=RANKS)

    with claimed(tmp_path):
        pin(tmp_path, settings(one, buckets=2), tmp_path)
        with pytest.raises(ConfigError, match=r"steps\.of_ranks is new"):
            pin(tmp_path, settings(two, buckets=2), tmp_path)


def test_verify_reads_every_relation(tmp_path: Path) -> None:
    """For the keys of its own stream."""
    url = f"sqlite:///{tmp_path / 'r.db'}"
    seed_sellers(url, SELLERS)
    seed_others(url)
    pipeline = make_pipeline(url, others={"ranks": {"stream": "items"}})
    with Session() as session:
        load_records(session, *to_kafka([bid(0, 1, seller=1), item(0, 1, seller=3)]))
        classify(session, pipeline)
        load_relations(session, pipeline)
        asked = {
            name: [row[f"{name}_seller_id"] for row in session.run("FROM $table", table=f"relation_{name}")]
            for name in pipeline.relations
        }

    assert asked == {"sellers": [1], "ranks": [3]}


def test_a_plan_is_of_one_lookup(tmp_path: Path) -> None:
    """Where there are several, the one that is named."""
    url = f"sqlite:///{tmp_path / 'r.db'}"
    seed_sellers(url, SELLERS)
    seed_others(url)
    pipeline = make_pipeline(url, others=RANKS)

    assert forecast(pipeline, "ranks", None, 10, 0.0).relation == "ranks"
    with pytest.raises(ConfigError, match="by --relation; there are: sellers, ranks"):
        forecast(pipeline, None, None, 10, 0.0)
