"""Output punctuations of the engine equal their definition, over any number of buckets."""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.pipeline import Pipeline
from endmark.pipeline.boundedness import states
from endmark.types import JoinType
from support.cases import cases
from support.graph_runs import require_same
from support.output_driver import Driver
from support.output_world import World, histories
from support.sizes import BUCKETS, MERGING, Merging
from support.times import spellings
from support.verify_world import Record, instant


@pytest.mark.parametrize("kind", JoinType)
@cases(18, among=len(JoinType))
@given(data=st.data(), buckets=BUCKETS, purge_every=st.sampled_from([1, 3]), merging=MERGING)
def test_announcements_equal_their_definition(
    kind: JoinType, data: st.DataObject, buckets: int, purge_every: int, merging: Merging
) -> None:
    """Results and violations are those of the definition; no result matches what an earlier batch announced;
    and in the end every pattern that is complete is announced, once, whatever the batches and buckets and
    however late state is purged."""
    history = data.draw(histories(kind))
    expected = World(history).expected()
    spelled = data.draw(spellings(datetime(2026, 1, 1, tzinfo=UTC)))
    with tempfile.TemporaryDirectory() as directory, merging.limits():
        actual = Driver(history, spelled, buckets, Path(directory), purge_every).run()

    assert actual.results == expected.results
    assert actual.violations == expected.violations
    assert actual.broken == []
    assert actual.patterns == expected.patterns
    assert actual.keys.keys() <= expected.keys
    assert set(actual.keys.values()) <= {1}


def keyed(streams: dict[str, dict[str, Any]], steps: dict[str, Any]) -> Pipeline:
    """A pipeline of streams on the key `k`, with a table of its last step."""
    columns = {"k": "long", "at": "timestamp"}
    declared = {
        name: {"topic": name, "columns": columns, "event_time": {"column": "at"}, **fields}
        for name, fields in streams.items()
    }
    last = [*steps][-1]
    return Pipeline.model_validate(
        {
            "name": "keyed",
            "streams": declared,
            "steps": steps,
            "tables": {last: {}},
            "unbounded_state": "allow",
        }
    )


def keyed_row(stream: str, key: int) -> Record:
    return Record(stream, 0, json.dumps({"k": key, "at": instant(0)}).encode())


def promised(stream: str, pattern: dict[str, Any]) -> Record:
    return Record(stream, 0, json.dumps({"$punctuation": {"k": pattern}}).encode())


@pytest.mark.parametrize("cuts", [[], [2], [1, 2, 3]])
@pytest.mark.parametrize("kind", ["inner", "left", "full", "semi", "three"])
def test_a_named_key_is_announced_once_the_order_of_another_stream_has_passed_it(
    kind: str, cuts: list[int]
) -> None:
    """No pattern announces an order. So nothing else would tell a reader that the key is over."""
    streams: dict[str, dict[str, Any]] = {
        "orders": {"ordered": {"k": "ascending"}},
        "payments": {"punctuated_on": "k"},
    }
    joined: dict[str, Any] = {"join": ["orders", "payments"], "on": "k"}
    records = [keyed_row("orders", 1), keyed_row("payments", 1), promised("payments", {"equals": 1})]
    if kind != "three":
        joined["type"] = kind
    else:
        streams["shipments"] = {"punctuated_on": "k"}
        joined["join"] = [*streams]
        records = [promised("shipments", {"equals": 1}), *records]
    records.append(keyed_row("orders", 2))

    found = require_same(keyed(streams, {"paid": joined}), records, cuts, dict.fromkeys(streams, 1))

    announced = [json.loads(row["punctuation"]) for row in found["announced"]]
    assert announced.count({"orders_k": {"equals": 1}}) == 1


@pytest.mark.parametrize("cuts", [[], [1], [1, 2]])
def test_a_pattern_of_the_right_of_a_semi_join_closes_keys_of_the_next_stage(cuts: list[int]) -> None:
    """Results have no column of the payments. So only the key of the orders can say that it is over."""
    streams = {name: {"punctuated_on": "k"} for name in ("orders", "payments", "tickets")}
    steps = {
        "paid": {"join": ["orders", "payments"], "on": "k", "type": "semi"},
        "served": {"join": ["paid", "tickets"], "on": "k", "type": "right"},
    }
    records = [keyed_row("tickets", 1), keyed_row("orders", 1), promised("payments", {"between": {"to": 1}})]

    found = require_same(keyed(streams, steps), records, cuts, dict.fromkeys(streams, 1))

    assert [(row["tickets_k"], row["orders_k"]) for row in found["results"]] == [(1, None)]


@pytest.mark.parametrize("cuts", [[], [2], [1, 2, 3]])
def test_a_pattern_of_the_right_of_a_semi_join_closes_groups(cuts: list[int]) -> None:
    """The group key is a column of the join key, which the payments promise for the orders, too."""
    streams: dict[str, dict[str, Any]] = {
        "orders": {"columns": {"k": "long", "lot": "long", "at": "timestamp"}},
        "payments": {
            "columns": {"k": "long", "lot": "long", "at": "timestamp"},
            "punctuated_on": ["k", "lot"],
        },
    }
    steps = {
        "paid": {"join": [*streams], "on": ["k", "lot"], "type": "semi", "window": "5s"},
        "by_lot": {"from": "paid", "aggregate": {"by": "lot", "measures": {"rows": "count"}}},
    }
    rows = [(name, lot, second) for lot, second in ((1, 0), (2, 60)) for name in streams]
    records = [
        Record(name, 0, json.dumps({"k": 7, "lot": lot, "at": instant(second)}).encode())
        for name, lot, second in rows
    ]
    closing = {"$punctuation": {"lot": {"between": {"to": 1}}}}
    records.append(Record("payments", 0, json.dumps(closing).encode()))
    pipeline = keyed(streams, steps)

    found = require_same(pipeline, records, cuts, dict.fromkeys(streams, 1))

    assert [state.bound for state in states(pipeline) if state.holds == "groups"] == [
        "bounded by payments' punctuations on lot"
    ]
    assert [(row["lot"], row["rows"]) for row in found["groups"]] == [(1, 1)]


@pytest.mark.parametrize("cuts", [[], [1, 2]])
def test_a_key_that_is_named_and_matched_is_closed_in_the_next_stage(cuts: list[int]) -> None:
    """The ticket has no partner, whatever the batches. Orders have named its key. Payments have promised a
    pattern."""
    streams = {name: {"punctuated_on": "k"} for name in ("orders", "payments", "tickets")}
    steps = {
        "paid": {"join": ["orders", "payments"], "on": "k", "type": "semi"},
        "served": {"join": ["paid", "tickets"], "on": "k", "type": "right"},
    }
    records = [keyed_row("tickets", 1), promised("orders", {"equals": 1})]
    records.append(promised("payments", {"between": {"to": 1}}))

    found = require_same(keyed(streams, steps), records, cuts, dict.fromkeys(streams, 1))

    assert [(row["tickets_k"], row["orders_k"]) for row in found["results"]] == [(1, None)]
