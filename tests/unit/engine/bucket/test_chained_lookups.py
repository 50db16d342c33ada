"""A lookup that asks by what an earlier lookup of its stream has found."""

from __future__ import annotations

import re
from collections import Counter
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from endmark.engine.bucket import lookups
from endmark.engine.bucket.lookup_levels import lookup_places
from endmark.metrics import sample
from endmark.pipeline import Pipeline
from endmark.verify.classify import classify
from endmark.verify.relation import load_relations
from endmark.verify.session import Session
from endmark.verify.verification import load_records
from support.bucket_tasks import BucketTasks, Tables, total
from support.verify_others import COLUMNS, OTHERS, seed_others
from support.verify_places import seed_sellers, to_kafka
from support.verify_recompute import SELLERS, recomputed, require_within, sellers_of
from support.verify_world import EPOCH, PARTITIONS, Record, bid, item, locate, make_pipeline

BADGES = {"stream": "bids", "cardinality": "many_to_many"}
TITLES = {"stream": "bids", "key": "badges.rank"}
COLOURS = {"stream": "bids", "key": "titles.title", "cardinality": "many_to_many"}
STEP = 200_000  # microseconds, of the clock that tells when parked rows are due


def tasks_of(pipeline: Pipeline, directory: Path, full_batch: int | None = None) -> BucketTasks:
    return BucketTasks(
        pipeline, sellers_of(pipeline), PARTITIONS, directory, full_batch=full_batch, others=OTHERS
    )


def run(pipeline: Pipeline, directory: Path, *records: Record) -> Tables:
    """What comes out, after it is held against its recomputation."""
    found = tasks_of(pipeline, directory).batch(locate(records))
    with recomputed(pipeline, list(records), found=found) as session:
        require_within(session, pipeline)
    return found


def letters_of(found: Tables) -> list[tuple[int, str]]:
    return sorted((letter["offset"], letter["error"].split()[0]) for letter in found["dead_letters"])


def test_each_row_asks_by_what_it_has_found(tmp_path: Path) -> None:
    """A record with three badges is three rows, and each asks by its own."""
    titles, colours = TITLES | {"miss": "nulls"}, COLOURS | {"miss": "nulls"}
    pipeline = make_pipeline(others={"badges": BADGES, "titles": titles, "colours": colours})

    found = run(pipeline, tmp_path, item(0, 1), bid(0, 1))

    names = ("badges_rank", "titles_title", "colours_colour")
    assert Counter(tuple(row[name] for name in names) for row in found["results"]) == {
        ("new", "tin", 3): 1,
        ("odd", None, None): 1,
        ("old", None, None): 1,
    }
    assert list(found["results"][0]) == list(pipeline.result_columns())


def test_a_record_is_given_up_with_its_last_row(tmp_path: Path) -> None:
    """By the lookup that leaves none of its rows, and as one dead letter. Seller 1 goes on with a title of
    three badges, seller 4 has the badge `old` twice, whose title is null."""
    titles, colours = TITLES | {"miss": "drop"}, COLOURS | {"miss": "dead_letter"}
    sellers = {1: "Ann", 2: "Bo"}
    records = [bid(0, at, seller=seller) for at, seller in enumerate([1, 2, 4], 1)]
    others = {"badges": BADGES, "titles": titles, "colours": colours}
    pipeline = make_pipeline(looking={"miss": "nulls"}, others=others)

    found = run(pipeline, tmp_path, *records, item(0, 1))

    assert letters_of(found) == [(2, "colours")]
    assert Counter(row["sellers_name"] for row in found["results"]) == dict.fromkeys(sellers.values(), 1)


@pytest.mark.parametrize("order", [["ranks", "badges", "titles"], ["badges", "titles", "ranks"]])
def test_the_first_in_the_flow_decides(tmp_path: Path, order: list[str]) -> None:
    """Even if it asks later: seller 2 has no rank, and its badge no title where titles are of ranks."""
    refusing = {"miss": "dead_letter"}
    asking: dict[str, dict[str, Any]] = {
        "badges": BADGES | refusing,
        "titles": TITLES | {"key": "sellers.name"} | refusing,
        "ranks": {"stream": "bids"} | refusing,
    }
    pipeline = make_pipeline(looking={"miss": "nulls"}, others={name: asking[name] for name in order})
    records = [bid(0, at, seller=seller) for at, seller in enumerate([1, 2, 3, 4], 1)]

    found = run(pipeline, tmp_path, *records, item(0, 1))

    first = {
        "ranks": [(1, "ranks"), (2, "badges"), (3, "titles")],
        "badges": [(1, "ranks"), (2, "badges"), (3, "titles")],
    }
    assert letters_of(found) == first[order[0]]


def test_lookups_that_do_not_wait_for_each_other_are_of_one_level() -> None:
    others = {
        "ranks": {"stream": "bids"},
        "titles": {"stream": "bids", "key": "name"},
        "badges": BADGES,
        "colours": COLOURS,
    }
    places = lookup_places(make_pipeline(others=others))

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


@pytest.mark.parametrize("miss", ["drop", "dead_letter", "nulls"])
@pytest.mark.parametrize("park", [False, True])
def test_a_null_that_was_found_has_no_match(tmp_path: Path, miss: str, *, park: bool) -> None:
    """Seller 3 has a rank that is null, seller 2 none. No row is parked, since no relation has null."""
    parked: Any = {"park": {"delay": "1h", "attempts": 2, "then": miss}} if park else miss
    others = {
        "ranks": {"stream": "bids", "miss": "nulls"},
        "titles": {"stream": "bids", "key": "ranks.rank", "miss": parked},
    }
    pipeline = make_pipeline(others=others)
    tasks, records = tasks_of(pipeline, tmp_path), [bid(0, 1, 3), bid(0, 1, 2), item(0, 1)]

    found = total([tasks.batch(locate(records)), tasks.batch([])])

    assert [row["titles_title"] for row in found["results"]] == ([None, None] if miss == "nulls" else [])
    assert letters_of(found) == ([(0, "titles"), (1, "titles")] if miss == "dead_letter" else [])
    with recomputed(pipeline, records, found=found) as session:
        require_within(session, pipeline)


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


def test_a_version_may_be_asked_by_a_time_that_was_found(tmp_path: Path) -> None:
    """The era of a bid is the one in which its seller's version began."""
    pipeline = make_pipeline(
        windows=(60, 60), looking={"as_of": {"stream": "bid_at", "relation": "since"}}, others={}
    )
    document = pipeline.model_dump()
    document["relations"]["eras"] = {
        **document["relations"]["sellers"],
        "table": "eras",
        "columns": {"seller_id": "long", "era": "string", "began": "timestamp"},
    }
    lookup = {
        "relation": "eras",
        "key": "seller_id",
        "as_of": {"stream": "sellers.since", "relation": "began"},
    }
    document["steps"]["dated"] = {"from": "known", "lookup": lookup}
    document["steps"]["matched"]["join"] = ["items", "dated"]
    document["steps"]["matched"]["window"] = {"items": 60, "dated": 60}
    pipeline = Pipeline.model_validate(document)
    eras = [(1, f"from {second}", EPOCH + timedelta(seconds=second)) for second in (2, 5)]

    with patch.dict(OTHERS, eras=eras):
        found = run(pipeline, tmp_path, item(0, 1), *(bid(0, second) for second in (1, 4, 5.5, 9)))

    named = {row["bids_kafka_offset"]: row["eras_era"] for row in found["results"]}
    assert named == {1: "from 2", 2: "from 5", 3: "from 5"}


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
