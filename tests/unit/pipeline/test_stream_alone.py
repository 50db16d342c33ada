"""A pipeline of one stream: what is refused, its key, its columns and its picture."""

from __future__ import annotations

import re
from typing import Any

import pytest

from endmark.control.description import describe
from endmark.control.tuning.job_autotune import tuned_of
from endmark.control.tuning.knobs import steps_of, turned
from endmark.errors import ConfigError
from endmark.pipeline import Pipeline
from endmark.pipeline.boundedness import require_bounded, states
from endmark.pipeline.file import load
from endmark.pipeline.picture import drawn
from endmark.pipelines import AUCTION
from endmark.planning.join_forecast import measured
from support.verify_alone import alone
from support.verify_world import make_pipeline

BIDS = alone(make_pipeline(), "bids")
AGGREGATE: dict[str, Any] = BIDS.steps["by_key"].model_dump()["aggregate"]


def changed(
    stream: dict[str, Any] | None = None,
    aggregate: dict[str, Any] | None = AGGREGATE,
    *,
    looked_up: bool = True,
) -> Pipeline:
    """The pipeline of the bids with other fields of the stream, another aggregate, or no lookup."""
    document = BIDS.model_dump()
    document["streams"]["bids"] |= stream or {}
    last, tables = "known", {"results": {"from": "known"}}
    if not looked_up:
        last, tables = "bids", {"results": {"from": "bids"}}
        document["relations"] = {}
        del document["steps"]["known"]
    del document["steps"]["by_key"]
    if aggregate is not None:
        document["steps"]["by_key"] = {"from": last, "aggregate": aggregate}
        tables["groups"] = {"from": "by_key"}
    return Pipeline.model_validate(document | {"tables": tables})


def test_two_streams_demand_a_join() -> None:
    both = make_pipeline(aggregated=False).model_dump()
    del both["steps"]["matched"]
    says = "streams.items: its rows go to no step, while others end in known; join them, leave one out, or"
    with pytest.raises(ValueError, match=says):
        Pipeline.model_validate(both)
    with pytest.raises(ValueError, match="streams"):
        Pipeline.model_validate({**both, "streams": {}})


def test_columns_are_named_as_behind_a_join() -> None:
    joined = make_pipeline()

    assert BIDS.result_columns() == joined.side_columns("bids") == BIDS.side_columns("bids")
    assert {"bids_item_id", "sellers_name", "bids_kafka_offset"} <= BIDS.result_columns().keys()
    assert next(iter(BIDS.groups[0].columns())) == "item_id"


@pytest.mark.parametrize(
    ("stream", "key"),
    [
        ({"unique": ["bid_at"], "clustered": ["item_id"]}, None),
        ({"unique": ["seller_id"], "closes": {"on": "note", "when": "urgent"}}, ("seller_id",)),
        ({"clustered": ["note"]}, ("note",)),
        ({"ordered": {"due": "ascending"}, "punctuated_on": "due"}, ("due",)),
        ({"closes": {"on": ["due", "note"], "when": "urgent"}, "punctuated_on": "due"}, ("due", "note")),
        ({"closes": {"on": ["price", "note"], "when": "urgent"}}, ("seller_id",)),
        ({"punctuated_on": ["bid_at", "item_id", "price", "note"]}, ("item_id", "note")),
        ({"punctuated_on": ["bid_at", "price"]}, ("seller_id",)),
        ({"punctuated_on": []}, ("seller_id",)),
    ],
)
def test_the_key_is_that_of_the_first_promise(stream: dict[str, Any], key: tuple[str, ...] | None) -> None:
    """Else it is the lookup's, so that a bucket reads its own part of the relation."""
    if key is None:
        with pytest.raises(ValueError, match=r"streams\.bids\.clustered"):
            changed(stream=stream, aggregate=None)
        return
    found = changed(stream={"punctuated_on": [], **stream}, aggregate=None)

    assert found.key == key
    assert found.closes_keys("bids") == (key != ("seller_id",) or "unique" in stream)
    assert list(found.key_types) == list(key)


def test_a_key_may_be_of_neither_promises_nor_lookups() -> None:
    found = changed(stream={"punctuated_on": []}, aggregate=None, looked_up=False)

    assert found.key == ("bid_at",)
    assert states(found) == []


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {"aggregate": {"by": "item", "measures": {"n": "count"}}},
            "steps.by_key.aggregate.by: no column 'item'",
        ),
        (
            {"aggregate": {"by": "price", "measures": {"n": "count"}}},
            "steps.by_key.aggregate.by: column 'price' is double",
        ),
        (
            {"aggregate": {"by": "note", "measures": {"n": "count"}}},
            "no stream is punctuated on 'note', so no group would ever close; set streams.<name>.punctuated",
        ),
        (
            {"aggregate": {"by": ["item_id", "note"], "measures": {"n": "count"}}},
            "streams.bids.punctuated_on: 'note' of the key 'item_id', 'note' is missing",
        ),
        ({"stream": {"unique": "note"}}, "streams.bids.unique: 'note' is not the key 'item_id'"),
        ({"stream": {"unique": "price"}, "aggregate": None}, "streams.bids.unique: column 'price' is double"),
        (
            {"aggregate": {"by": "item_id", "measures": {"n": {"max": "items.listed_at"}}}},
            "steps.by_key.aggregate.measures.n: 'items' is not one of streams or relations: bids, sellers",
        ),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        changed(**fields)


def test_its_rows_need_no_bound() -> None:
    """They are results at once. Groups are final when the stream closes their key."""
    require_bounded(BIDS)

    assert list(map(str, states(BIDS))) == [
        "by_key groups: bounded by bids' punctuations on item_id",
        "bids closed keys: unbounded, remembered until a pattern holds them, in ranges of 24 bytes",
    ]


def test_a_join_has_no_knobs_and_no_forecast() -> None:
    steps = steps_of(BIDS)

    assert list(steps) == ["steps.known.lookup", "batch"]
    assert describe(BIDS).join is None
    assert tuned_of(BIDS) == []
    with pytest.raises(ConfigError, match=r"'steps\.matched\.memory' is no knob; there are steps\.known"):
        turned(steps, "steps.matched.memory", 1)
    with pytest.raises(ConfigError, match="pipeline small has no join of two streams, whose state"):
        measured(BIDS, [])


def test_the_picture_ends_with_the_lookups() -> None:
    sales = load(
        AUCTION.with_name("sales.yaml"), {"ENDMARK_RELATION_URL": "sqlite://"}, ["publish.priced.topic=out"]
    )
    lines = drawn(sales).splitlines()

    assert "  stream_sales --> step_priced" in lines
    assert {line.split()[-1] for line in lines if line.startswith("  step_priced -->")} == {
        *(
            "published_priced",
            "table_results",
            "table_violations",
            "table_punctuations",
            "table_dead_letters",
        ),
    }
    bare = drawn(changed(aggregate={"by": "item_id", "measures": {"n": "count"}}, looked_up=False))
    assert "  stream_bids --> step_by_key" in bare.splitlines()
