"""A lookup that asks by what an earlier lookup of its stream has found."""

from __future__ import annotations

import re
from collections import Counter
from itertools import count
from pathlib import Path
from unittest.mock import patch

import pytest

from endmark.engine.bucket import lookups
from endmark.engine.bucket.lookup_levels import lookup_positions
from endmark.metrics import sample
from endmark.pipeline import Pipeline
from endmark.verify.judge.classify import classify
from endmark.verify.read.relation import load_relations
from endmark.verify.session import Session
from endmark.verify.verification import load_records
from support.bucket_tasks import BucketTasks
from support.verify_others import COLUMNS, OTHERS, seed_others
from support.verify_places import seed_sellers, to_kafka
from support.verify_recompute import SELLERS, sellers_of
from support.verify_world import PARTITIONS, bid, item, locate, make_pipeline

BADGES = {"stream": "bids", "cardinality": "many_to_many"}
TITLES = {"stream": "bids", "key": "badges.rank"}
COLOURS = {"stream": "bids", "key": "titles.title", "cardinality": "many_to_many"}
STEP = 200_000  # microseconds, of the clock that tells when parked rows are due


def tasks_of(pipeline: Pipeline, directory: Path, full_batch: int | None = None) -> BucketTasks:
    return BucketTasks(
        pipeline, sellers_of(pipeline), PARTITIONS, directory, full_batch=full_batch, others=OTHERS
    )


def test_lookups_that_do_not_wait_for_each_other_are_of_one_level() -> None:
    others = {
        "ranks": {"stream": "bids"},
        "titles": {"stream": "bids", "key": "name"},
        "badges": BADGES,
        "colours": COLOURS,
    }
    places = lookup_positions(make_pipeline(others=others))

    assert {name: place.level for name, place in places.items()} == {
        "sellers": 0,
        "ranks": 0,
        "titles": 1,
        "badges": 1,
        "colours": 2,
    }
    assert [place.number for place in places.values()] == list(range(5))
    assert [name for name, place in places.items() if place.first] == ["sellers", "titles", "colours"]
    assert places["colours"].found.names == [
        "sellers_name",
        "sellers_rating",
        "ranks_rank",
        "titles_title",
        "badges_rank",
    ]


def test_rows_wait_at_each_level(tmp_path: Path) -> None:
    """They wait since they came, also at the second level. A batch is due while they do."""
    parking = {"miss": {"park": {"delay": "1h", "attempts": 2}}}  # so what is answered leaves a batch later
    others = {"titles": {"stream": "bids", "key": "sellers.name", "time_per_batch": "0ms"}}
    pipeline = make_pipeline(looking=parking, others=others)
    records = locate([item(0, 1), bid(0, 1, 1), bid(0, 1, 2), bid(1, 1, 1)])
    found, waits, due = [], [], []
    with patch.object(lookups, "_now", count(STEP, STEP).__next__):
        tasks = tasks_of(pipeline, tmp_path, full_batch=1)
        for batch in ([], records[:3], records[3:], []):
            found.append(tasks.batch(batch))
            told = [report["least"] for report in tasks.reports if report.get("least")]
            waits.append(min((each["lookup_waiting_time_seconds"] for each in told), default=None))
            due.append(any("batch_due_time_seconds" in each for each in told))

    assert [len(each["results"]) for each in found] == [0, 0, 0, 2]
    assert due == [False, True, True, False]
    assert waits[0] is waits[3] is None
    assert waits[1] == waits[2] is not None


def test_each_level_counts_the_rows_that_come_to_it(tmp_path: Path) -> None:
    others = {"titles": {"stream": "bids", "key": "badges.rank"}}
    pipeline = make_pipeline(others={"badges": BADGES, **others})
    tasks = tasks_of(pipeline, tmp_path)

    tasks.batch(locate([bid(0, 1, 1), bid(0, 1, 3)]))

    counted = Counter[str]()
    for report in tasks.reports:
        counted.update({name: int(value) for name, value in report["samples"].items()})
    rows = {name: counted[sample("lookup_rows_total", relation=name)] for name in pipeline.relations}
    assert rows == {"sellers": 2, "badges": 2, "titles": 3}


LACKING = "rows have no columns of {!r} here, but of bids, sellers; {}"


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("buyers.name", LACKING.format("buyers", "name one of them")),
        ("items.seller_id", LACKING.format("items", "name one of them")),
        ("titles.title", LACKING.format("titles", "name one of them")),
        ("ranks.rank", LACKING.format("ranks", "look up ranks before this step")),
        ("sellers.seller_id", "'sellers.seller_id' is in the key of sellers, which rows do not repeat"),
        ("sellers.rating", "column 'rating' is double, but must be string"),
        ("sellers.size", "no column 'size'; there are name, rating"),
        ("size", "no column 'size'; there are item_id, seller_id, price"),
    ],
)
def test_what_is_wrong_is_named(key: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"steps.of_titles.lookup.key: {says}")):
        _titles_by(key)


@pytest.mark.parametrize("key", ["note", "bids.note", "name", "sellers.name"])
def test_a_column_may_be_alone_or_behind_its_origin(key: str) -> None:
    pipeline = _titles_by(key)
    (column,) = pipeline.asked_by(pipeline.lookup_in("titles")).key

    assert column.name == key.rpartition(".")[2]


@pytest.mark.parametrize("key", ["sellers.first.name", ".name", "sellers.", "sellers name"])
def test_a_reference_is_one_name_or_two(key: str) -> None:
    with pytest.raises(ValueError, match="is not a name"):
        _titles_by(key)


def _titles_by(key: str) -> Pipeline:
    others = {"titles": {"stream": "bids", "key": key}, "ranks": {"stream": "bids"}}
    return make_pipeline(others=others)


def test_a_column_of_several_has_to_be_spelled() -> None:
    others = {"ranks": {"stream": "bids"}, "badges": BADGES, "titles": {"stream": "bids", "key": "rank"}}

    with pytest.raises(
        ValueError, match=re.escape("'rank' may be one of ranks.rank, badges.rank; write the")
    ):
        make_pipeline(others=others)


def test_verify_reads_what_was_asked_by_what_was_found(tmp_path: Path) -> None:
    """Only the rows with such a key."""
    url = f"sqlite:///{tmp_path / 'r.db'}"
    seed_sellers(url, SELLERS)
    seed_others(url)
    others = {"badges": BADGES, "titles": TITLES, "colours": COLOURS}
    with Session() as session:
        pipeline = make_pipeline(url, others=others)
        load_records(session, *to_kafka([bid(0, 1, seller=1), item(0, 1, seller=3)]))
        classify(session, pipeline)
        load_relations(session, pipeline)
        kept = {
            name: sorted(
                {row[f"{name}_{column}"] for row in session.run("FROM $table", table=f"relation_{name}")}
            )
            for name in others
            for column in list(COLUMNS[name])[:1]
        }

    assert kept == {"badges": [1], "titles": ["new", "old"], "colours": ["tin"]}
