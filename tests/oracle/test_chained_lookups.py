"""The fate of records whose lookups ask by what earlier lookups have found, against `verify`."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from endmark.pipeline import Pipeline
from support.bucket_tasks import BucketTasks, Tables, total
from support.verify_others import OTHERS
from support.verify_recompute import recomputed, require_within, sellers_of
from support.verify_world import EPOCH, PARTITIONS, Record, bid, close, item, locate, make_pipeline

BADGES = {"stream": "bids", "cardinality": "many_to_many"}
TITLES = {"stream": "bids", "key": "badges.rank"}
COLOURS = {"stream": "bids", "key": "titles.title", "cardinality": "many_to_many"}


def tasks_of(pipeline: Pipeline, directory: Path) -> BucketTasks:
    return BucketTasks(pipeline, sellers_of(pipeline), PARTITIONS, directory, others=OTHERS)


def run(pipeline: Pipeline, directory: Path, *records: Record) -> Tables:
    """Return the tables of a run, after they are held against their recomputation."""
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


@pytest.mark.parametrize("miss", ["drop", "dead_letter"])
def test_lookups_of_a_level_leave_no_row_together(tmp_path: Path, miss: str) -> None:
    """One badge has no title, the others have no colour. The record is left without a row by the colours."""
    others = {
        "badges": BADGES,
        "titles": TITLES | {"miss": "dead_letter"},
        "colours": COLOURS | {"key": "badges.rank", "miss": miss},
    }

    found = run(make_pipeline(others=others), tmp_path, item(0, 1), bid(0, 1))

    assert found["results"] == []
    assert letters_of(found) == ([(0, "colours")] if miss == "dead_letter" else [])


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


def test_a_measure_of_its_key_is_of_the_column_by_which_it_asks(tmp_path: Path) -> None:
    """The rank of a title is that of a badge."""
    pipeline = make_pipeline(
        others={"badges": BADGES, "titles": TITLES}, measures={"highest": {"max": "titles.rank"}}
    )

    found = run(pipeline, tmp_path, item(0, 1), bid(0, 1), close("items", 0), close("bids", 0))

    assert [row["highest"] for row in found["groups"]] == ["old"]
