"""Unions of streams, from Kafka's bytes to tables, against the recomputation of `verify`."""

from __future__ import annotations

from typing import Any

import pytest

from endmark.pipeline import Pipeline
from endmark.wire.control import Turn
from support.graph_runs import require_same
from support.unions import TOPICS, closes, document, order, pipeline
from support.verify_histories import stamped
from support.verify_recompute import recomputed, require_within
from support.verify_world import Record


def test_rows_of_all_members_are_joined_and_grouped() -> None:
    records = [
        order("web", 1, partition=1, total=5),
        order("stores", 1, total=7),
        order("payments", 1),
        *(closes(name, 1, at) for name, at in (("web", 1), ("stores", 0), ("payments", 0))),
    ]

    found = require_same(pipeline(), records, [2], TOPICS)

    assert found["groups"] == [{"order_id": 1, "rows": 2, "total": 12}]
    # Partition 1 of the first member, and partition 0 of the second one.
    assert sorted(row["orders_kafka_partition"] for row in found["results"]) == [1, 2]


@pytest.mark.parametrize("closing", [[], ["web"], ["stores"], ["web", "stores"]])
def test_a_key_is_closed_once_all_members_have_closed_it(closing: list[str]) -> None:
    """One punctuation of a member is enough, since its topic is partitioned by the key."""
    records = [order("web", 1), *(closes(name, 1) for name in closing), order("payments", 1)]
    records += [order("stores", 1), closes("payments", 1)]

    found = require_same(pipeline(), records, [1, 2], TOPICS)

    assert len(found["groups"]) == (closing == ["web", "stores"])


@pytest.mark.parametrize("first", [0, 1])
def test_one_member_names_a_key_and_another_has_it_in_a_pattern(first: int) -> None:
    """Both together close the key, in any order. Partition 1 of the web has promised nothing about it."""
    until = {"order_id": {"between": {"to": 5}}}
    promises = [closes("web", 1), closes("stores", until)]
    records = [order("web", 1), order("payments", 1), promises[first], promises[1 - first]]

    found = require_same(pipeline(), [*records, closes("payments", 1)], [2, 3], TOPICS)

    assert [row["order_id"] for row in found["groups"]] == [1]
    without = require_same(pipeline(), [*records[:3], closes("payments", 1)], [2, 3], TOPICS)
    assert without["groups"] == []


def test_a_pattern_in_some_partitions_of_a_member_closes_no_key() -> None:
    until = {"order_id": {"between": {"to": 5}}}
    records = [order("stores", 1), order("payments", 1), closes("stores", until), closes("web", until)]
    records += [closes("payments", 1)]

    assert require_same(pipeline(), records, [2, 4], TOPICS)["groups"] == []
    found = require_same(pipeline(), [*records, closes("web", until, 1)], [2, 4], TOPICS)
    assert len(found["groups"]) == 1
    texts = {row["punctuation"] for row in found["announced"]}
    assert '{"orders_order_id": {"between": {"to": 5}}}' in texts


def test_a_member_that_is_not_partitioned_by_its_key() -> None:
    """Each of its partitions must promise the key, while one promise is enough in the other member."""
    records = [order("stores", 1), order("payments", 1), closes("payments", 1), closes("stores", 1)]
    records += [closes("web", 1)]
    scattered = pipeline(web={"punctuation_scope": "topic"})

    assert require_same(scattered, records, [2, 4], TOPICS)["groups"] == []
    assert len(require_same(scattered, [*records, closes("web", 1, 1)], [2, 4], TOPICS)["groups"]) == 1


def test_violations_and_dead_letters_have_the_coordinates_of_their_records() -> None:
    """A promise of one member is none of the other, whose row is joined."""
    records = [closes("stores", 1), order("stores", 1), order("web", 1, partition=1), order("payments", 1)]
    records += [Record("of.web", 1, b"{"), Record("of.stores", 0, b"[")]

    found = require_same(pipeline(), records, [1, 3], TOPICS)

    (violation,) = found["violations"]
    assert (violation["topic"], violation["partition"], violation["offset"]) == ("of.stores", 0, 1)
    assert (violation["promise_partition"], violation["promise_offset"]) == (0, 0)
    assert violation["record"] == '{"order_id": 1, "total": 1, "moment": "2026-01-01T00:00:00.000000Z"}'
    places = {(row["topic"], row["partition"], row["offset"]) for row in found["dead_letters"]}
    assert places == {("of.web", 1, 1), ("of.stores", 0, 2)}
    assert [row["orders_kafka_partition"] for row in found["results"]] == [2]


def test_columns_stand_in_the_order_of_the_first_member() -> None:
    """Whatever the order in the other members, whose rows may come in one batch with those of the first."""
    columns = {"total": "long", "moment": "timestamp", "order_id": "long"}
    records = [
        order("web", 1, total=5),
        order("stores", 2, total=7),
        order("payments", 1),
        order("payments", 2),
    ]

    found = require_same(pipeline(stores={"columns": columns}), records, [], TOPICS)

    assert {row["orders_order_id"]: row["orders_total"] for row in found["results"]} == {1: 5, 2: 7}


def test_each_member_has_its_lateness() -> None:
    """A row of the stores may be 5 s late, which holds the progress of the union back. None of the web may
    be."""
    late = {"column": "moment", "lateness": "5s", "ahead": None}
    records = [order(name, 1, 10, partition=at) for name, at in (("web", 0), ("web", 1), ("stores", 0))]
    records += [order("payments", 2, 4), order("payments", 3, 7)]
    records += [order("web", 2, 7), order("stores", 2, 6), order("stores", 3, 7)]

    found = require_same(windowed(stores={"event_time": late}), records, [3, 5], TOPICS)

    assert [(row["topic"], row["reason"]) for row in found["violations"]] == [("of.web", "late")]
    # The payment at second 4 has left the window of 1 s when progress has come to second 5.
    assert {row["orders_order_id"] for row in found["results"]} == {3}


def test_progress_waits_for_all_members() -> None:
    """A payment stays joinable while the stores have had no row, however far the web has come."""
    records = [order("payments", 1, 1), order("web", 2, 60), order("web", 2, 60, partition=1)]
    records += [order("stores", 1, 1)]

    found = require_same(windowed(), records, [1, 3], TOPICS)

    assert [row["orders_order_id"] for row in found["results"]] == [1]


def windowed(**changes: Any) -> Pipeline:
    """The pipeline with a window of 1 s, in which no stream closes a key, and without groups."""
    streams = ("web", "stores", "payments")
    found = document(**{name: {"punctuated_on": []} | changes.get(name, {}) for name in streams})
    found["steps"] = {
        "orders": found["steps"]["orders"],
        "paid": found["steps"]["paid"] | {"window": "1s"},
    }
    return Pipeline.model_validate(found | {"tables": {"paid": {}}})


def test_groups_of_a_union_that_no_join_takes() -> None:
    found = document()
    group = found["steps"]["by_order"] | {"from": "orders"}
    steps = {"orders": found["steps"]["orders"], "by_order": group}
    streams = {name: found["streams"][name] for name in ("web", "stores")}
    alone_closed = Pipeline.model_validate(
        found | {"streams": streams, "steps": steps, "tables": {"by_order": {}, "all": {"from": "orders"}}}
    )
    records = [order("web", 1, total=2), order("stores", 1, total=3), order("stores", 2, total=9)]
    records += [closes("web", 1), closes("stores", 1), closes("stores", 2)]

    tables = require_same(alone_closed, records, [2, 4], topics_of_orders())

    assert tables["groups"] == [{"order_id": 1, "rows": 2, "total": 5}]
    assert len(tables["results"]) == 3


def alone(steps: dict[str, Any], tables: dict[str, Any]) -> Pipeline:
    """The pipeline with the union's members alone, which promise nothing, and other steps and tables."""
    found = document(web={"punctuated_on": []}, stores={"punctuated_on": []})
    streams = {name: found["streams"][name] for name in ("web", "stores")}
    return Pipeline.model_validate(found | {"streams": streams, "steps": steps, "tables": tables})


def test_groups_by_time_wait_for_the_slowest_way_of_a_member() -> None:
    """A row of the stores has the minute before. So minute 1 is open while their progress is in minute 2."""
    before = "date_trunc('minute', moment - INTERVAL '1 minute')"
    steps: dict[str, Any] = {
        "web_timed": {"from": "web", "derive": {"minute": "date_trunc('minute', moment)"}},
        "stores_timed": {"from": "stores", "derive": {"minute": before}},
        "orders": {"union": ["web_timed", "stores_timed"]},
        "by_minute": {"from": "orders", "aggregate": {"by": "minute", "measures": {"rows": "count"}}},
    }
    records = [order("web", 1, 5), order("web", 2, 65), order("stores", 3, 66), order("web", 4, 125)]
    records += [order("web", 5, 126, partition=1), order("stores", 6, 127)]
    last = [order("stores", 7, 130), order("web", 8, 200), order("web", 9, 200, partition=1)]

    found = require_same(
        alone(steps, {"by_minute": {}}),
        [*records, *last, order("stores", 10, 185)],
        [6, 9],
        topics_of_orders(),
    )

    # Progress is 185 s, so rows of the stores may still have minute 2.
    assert sorted(row["rows"] for row in found["groups"]) == [2, 3]


def test_a_row_step_behind_a_union_drops_duplicates_of_each_partition() -> None:
    """It stands behind another one that filters rows of both members."""
    steps: dict[str, Any] = {
        "orders": {"union": ["web", "stores"]},
        "sold": {"from": "orders", "where": "total > 0"},
        "once": {"from": "sold", "deduplicate": {"by": "order_id", "within": "10s"}},
        "latest": {"from": "once", "aggregate": {"by": "order_id", "measures": {"rows": "count"}}},
    }
    records = [order("web", 1, total=0), order("web", 1), order("stores", 1), order("web", 1, 5)]
    records += [order("stores", 1, 11), order("web", 1, partition=1), order("web", 2, total=0)]
    tables = {"once": {}, "latest": {"mode": "upsert"}}

    found = require_same(alone(steps, tables), records, [2, 4], topics_of_orders())

    assert len(found["results"]) == 4


def topics_of_orders() -> dict[str, int]:
    return {topic: count for topic, count in TOPICS.items() if topic != "of.payments"}


@pytest.mark.parametrize(("others", "overtaken"), [(60, 1), (20, 0)])
def test_an_idle_partition_of_a_member_does_not_hold_back_progress(others: int, overtaken: int) -> None:
    """It is silent beside the other partition of its topic. Progress waits for the other member, whose
    records are no newer by Kafka's time."""
    declared = document(web={"event_time": {"column": "moment", "ahead": None, "idle": "10s"}})
    declared["steps"]["paid"] |= {"window": "2s", "type": "right"}
    records = stamped(
        (order("payments", 1, 21), 0),
        (order("web", 2, 50), 0),
        (order("stores", 3, others), 0),
        (order("web", 2, 60), 11),
        (order("web", 1, 21, partition=1), 12),
    )

    found = require_same(Pipeline.model_validate(declared), records, [3, 4], TOPICS)

    reasons = [(row["topic"], row["partition"], row["reason"]) for row in found["violations"]]
    assert reasons == [("of.web", 1, "idle")] * overtaken
    payments = [row["orders_order_id"] for row in found["results"] if row["payments_order_id"] == 1]
    assert payments == [None if overtaken else 1]


def test_no_member_alone_overtakes_a_row() -> None:
    """The tables of a union whose progress has overtaken a row are wrong for one that waits for `stores`."""
    declared = document(web={"event_time": {"column": "moment", "ahead": None, "idle": "10s"}})
    declared["steps"]["paid"] |= {"window": "2s"}
    union = Pipeline.model_validate(declared)

    def records(others: int) -> list[Record]:
        beside = ((order("web", 2, 50), 0), (order("stores", 3, others), 0), (order("web", 2, 60), 11))
        return stamped(*beside, (order("web", 1, 21, partition=1), 12))

    found = require_same(union, records(60), [2, 3], TOPICS)

    assert [row["reason"] for row in found["violations"]] == ["idle"]
    with recomputed(union, records(20), found, TOPICS) as session, pytest.raises(AssertionError):
        require_within(session, union)


def test_the_idleness_of_a_member_may_be_turned() -> None:
    """From the batch behind the turn on, and for this member alone."""
    declared = document(
        **{
            name: {"event_time": {"column": "moment", "ahead": None, "idle": "1h"}}
            for name in ("web", "stores")
        }
    )
    declared["steps"]["paid"] |= {"window": "2s", "type": "right"}
    union = Pipeline.model_validate(declared)
    turn = Record(union.control_topic, 0, Turn("streams.web.event_time.idle", "10s", "Ann").written())
    records = stamped(
        (order("payments", 1, 21), 0),
        (order("web", 2, 50), 0),
        (order("stores", 3, 60), 0),
        (turn, 0),
        (order("web", 2, 60), 11),
        (order("web", 1, 21, partition=1), 12),
    )

    found = require_same(union, records, [4, 5], TOPICS)

    assert [row["reason"] for row in found["violations"]] == ["idle"]
