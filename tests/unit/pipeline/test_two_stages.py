"""Pipelines in which the rows of a join go on into another stage: what a file may say, and its bounds."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from endmark.control.tuning.knobs import knobs_of, steps_of
from endmark.errors import ConfigError
from endmark.pipeline import Pipeline
from endmark.pipeline.boundedness import require_bounded, states
from endmark.pipeline.picture import drawn
from endmark.planning.join_forecast import is_predictable
from support.two_stages import NAMES, two_stages

PROMISED = {"orders": ["order_id", "customer_id"], "payments": ["order_id"], "tickets": ["customer_id"]}
WINDOWS: dict[str, Any] = {
    "paid": {"window": "14d"},
    "served": {"window": {"paid": "7d", "tickets": "30d"}},
}


def changed(**parts: dict[str, Any]) -> Pipeline:
    """The pipeline with other steps, streams, relations or tables; `None` leaves one out."""
    document: dict[str, Any] = two_stages(lookup=("paid", {})).model_dump()
    for part, fields in parts.items():
        document[part] = {
            name: value for name, value in (document[part] | fields).items() if value is not None
        }
    return Pipeline.model_validate(document)


def test_stages_and_their_inputs() -> None:
    pipeline = two_stages(lookup=("paid", {}), flipped=True)
    first, second = pipeline.stages
    assert (first.inputs, first.key, first.derived) == (("orders", "payments"), ("order_id",), None)
    assert (second.inputs, second.key, second.derived) == (("tickets", "paid"), ("customer_id",), "paid")
    assert second.streams == ("tickets",)
    assert second.key_columns("paid") == ("orders_customer_id",)
    assert (second.time_of("paid"), second.timed_by("paid")) == ("orders_at", "orders")
    assert pipeline.sides == pipeline.shown == pipeline.present == ("tickets", "orders", "payments")
    assert [lookup.relation for lookup in pipeline.lookups_of("paid")] == ["sellers"]
    assert pipeline.stage_of("payments").inputs == first.inputs


def test_columns_keep_their_origins() -> None:
    """Results have the columns of all streams, and those of a relation behind the rows that asked it."""
    columns = list(two_stages(lookup=("paid", {})).result_columns())
    assert columns == [
        *(
            "orders_order_id",
            "orders_customer_id",
            "orders_at",
            "orders_kafka_partition",
            "orders_kafka_offset",
        ),
        *("payments_order_id", "payments_payer_id", "payments_at"),
        *("payments_kafka_partition", "payments_kafka_offset", "sellers_name", "sellers_rating"),
        *("tickets_customer_id", "tickets_payer_id", "tickets_order_id", "tickets_at"),
        *("tickets_kafka_partition", "tickets_kafka_offset"),
    ]


def test_a_lookup_alone_is_a_stage() -> None:
    pipeline = changed(
        streams={"tickets": None}, steps={"served": None}, tables={"served": None, "known": {}}
    )
    second = pipeline.last_stage
    assert (second.join, second.inputs, second.key) == (None, ("paid",), ("order_id",))
    assert second.key_columns("paid") == ("orders_order_id",)
    assert "sellers_name" in pipeline.result_columns()


def test_knobs_of_both_joins() -> None:
    names = knobs_of(steps_of(two_stages(**WINDOWS)))
    assert {"steps.paid.purge_every", "steps.served.purge_every", "steps.served.memory"} <= set(names)


def test_it_is_drawn_and_not_predicted() -> None:
    pipeline = two_stages(**WINDOWS)
    assert "  step_paid --> step_served" in drawn(pipeline)
    assert not is_predictable(pipeline)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (
            {"steps": {"paid": {"join": ["orders", "payments"], "on": "order_id", "type": "full"}}},
            "steps.paid.type: results of a full join may lack a row of orders, whose event time is theirs",
        ),
        (
            {"steps": {"paid": {"join": ["orders", "payments"], "on": "order_id", "type": "right"}}},
            "write inner, left or semi, or left with payments first",
        ),
        (
            {"steps": {"served": {"join": ["known", "tickets"], "on": "price"}}},
            "steps.served.on: paid has no column 'price'; it has order_id, customer_id, at, payer_id",
        ),
        (
            {"steps": {"served": {"join": ["known", "tickets"], "on": "at"}}},
            "steps.served.on: 'at' of paid may be that of orders and payments; drop it in a row step of",
        ),
        (
            {"steps": {"dear": {"from": "known", "where": "orders_order_id > 1"}}},
            "steps.dear: 'known' goes to step served already",
        ),
        (
            {
                "steps": {
                    "dear": {"from": "paid", "where": "orders_order_id > 1"},
                    "known": {"from": "dear", "lookup": {"relation": "sellers", "key": "customer_id"}},
                }
            },
            "steps.dear.where: no column 'orders_order_id'; there are orders.order_id",
        ),
        (
            {
                "steps": {
                    "known": {
                        "from": "paid",
                        "lookup": {"relation": "sellers", "key": "customer_id", "miss": "dead_letter"},
                    }
                }
            },
            "steps.known.lookup.miss: a row of paid is made of several records",
        ),
        (
            {
                "steps": {"again": {"join": ["served", "more"], "on": "customer_id"}},
            },
            "steps.again.join: 'more' is not one of streams or steps",
        ),
    ],
)
def test_what_a_further_stage_may_not_say(parts: dict[str, Any], why: str) -> None:
    with pytest.raises((ValidationError, ConfigError)) as caught:
        changed(**parts)
    assert why in str(caught.value)


def more_streams(count: int) -> dict[str, Any]:
    document: dict[str, Any] = two_stages(**WINDOWS).model_dump()
    tickets = document["streams"]["tickets"]
    document["streams"] |= {
        f"more{number}": tickets | {"topic": f"all.more{number}"} for number in range(count)
    }
    return document


def test_a_third_stage_is_refused() -> None:
    document = more_streams(1)
    document["steps"]["again"] = {"join": ["served", "more0"], "on": "payer_id"}
    with pytest.raises(ValidationError) as caught:
        Pipeline.model_validate(document | {"tables": {"again": {}}})
    assert (
        "steps.again: its rows have gone through 2 joins before, and a pipeline has 2 stages; end it with "
        "served, publish its rows, and read them in a pipeline of their own"
    ) in str(caught.value)


def test_two_joins_in_one_are_refused() -> None:
    document = more_streams(1)
    document["steps"]["other"] = {"join": ["tickets", "more0"], "on": "customer_id"}
    document["steps"]["served"] = {"join": ["paid", "other"], "on": "customer_id"}
    with pytest.raises(ValidationError) as caught:
        Pipeline.model_validate(document)
    assert (
        "steps.served.join: paid and other are joins, and one input at most has the rows of a join, since "
        "stages form a line; join their streams one after the other"
    ) in str(caught.value)


@pytest.mark.parametrize(
    ("payments", "bound"),
    [
        ({"punctuated_on": "k"}, "bounded by paid's punctuations on k"),
        ({"unique": "k"}, "bounded by paid's punctuations on k"),
        (
            {"ordered": {"k": "ascending"}},
            "unbounded, since steps.served.window.tickets is not set and no stream",
        ),
    ],
)
def test_an_order_alone_closes_no_key_of_the_next_stage(payments: dict[str, Any], bound: str) -> None:
    """No order is announced, so tickets stayed for ever though their state was said to be bounded."""
    declared: dict[str, dict[str, Any]] = {
        "orders": {"ordered": {"k": "ascending"}},
        "payments": payments,
        "tickets": {"punctuated_on": "k"},
    }
    stream = {"columns": {"k": "long", "at": "timestamp"}, "event_time": {"column": "at"}}
    pipeline = Pipeline.model_validate(
        {
            "name": "two",
            "streams": {name: {"topic": name, **stream, **fields} for name, fields in declared.items()},
            "steps": {
                "paid": {"join": ["orders", "payments"], "on": "k"},
                "served": {"join": ["paid", "tickets"], "on": "k"},
            },
            "tables": {"served": {}},
            "unbounded_state": "allow",
        }
    )

    assert bound in next(str(state) for state in states(pipeline) if state.name == "tickets rows")


def test_a_first_join_that_announces_no_pattern_is_named() -> None:
    """The orders promise the customer, but their join tells the next one nothing about it."""
    document: dict[str, Any] = two_stages(**WINDOWS, by=["customer_id"], promised=PROMISED).model_dump()
    document["streams"]["tickets"]["punctuated_on"] = []
    document["steps"]["paid"] |= {"preset": "pjoin", "window": None}
    with pytest.raises(
        ValidationError, match=r"or leave steps.paid.preset out, since pjoin announces no pat"
    ):
        Pipeline.model_validate(document | {"tables": {"grouped": {}}})


@pytest.mark.parametrize(
    ("by", "promised", "why"),
    [
        (["customer_id"], {}, "no stream is punctuated on 'customer_id', so no group would ever close"),
        (["payments.payer_id"], PROMISED, "set streams.payments.punctuated_on: [order_id, payer_id]"),
        (
            ["tickets.payer_id"],
            {},
            "set streams.tickets.punctuated_on: [payer_id], or write the groups so far",
        ),
    ],
)
def test_groups_that_nothing_closes(by: list[str], promised: dict[str, Any], why: str) -> None:
    """They need a table of the groups so far."""
    document: dict[str, Any] = two_stages(**WINDOWS, by=by, promised=promised).model_dump()
    with pytest.raises(ValidationError) as caught:
        Pipeline.model_validate(document | {"tables": {"grouped": {}}})
    assert why in str(caught.value)
    written = Pipeline.model_validate(document | {"tables": {"grouped": {"mode": "upsert"}}})
    assert next(state for state in states(written) if state.holds == "groups").declared


@pytest.mark.parametrize(
    ("on", "by", "bound"),
    [
        (["customer_id"], ["customer_id"], "by paid's and tickets' punctuations on customer_id"),
        (["customer_id", "payer_id"], ["customer_id"], "by orders' punctuations on customer_id"),
    ],
)
def test_the_bounds_of_groups_of_a_further_stage(on: list[str], by: list[str], bound: str) -> None:
    """A group by a part of the second key is closed by promises of a stream of the first join."""
    promised = PROMISED | {"payments": ["order_id", "payer_id"], "tickets": on}
    told = map(str, states(two_stages(on=on, by=by, promised=promised, **WINDOWS)))
    (groups,) = (line for line in told if " groups: " in line)
    assert bound in groups


def test_bounds_of_both_stages_are_told() -> None:
    """Orders that promise their customers close these for tickets, too."""
    told = list(map(str, states(two_stages(**WINDOWS, promised=PROMISED, unbounded_state="refuse"))))
    days = {"orders": 14, "payments": 14, "paid": 7, "tickets": 30}
    others = {"orders": "payments", "payments": "orders", "paid": "tickets", "tickets": "paid"}
    on = {"orders": "order_id", "payments": "order_id", "paid": "customer_id", "tickets": "customer_id"}

    def owner(name: str) -> str:
        return f"{name}'s" if name == "paid" else f"{name}'"

    rows = [
        f"{name} rows: bounded by window {days[name]} days after {owner(others[name])} progress and by "
        f"{owner(others[name])} punctuations on {on[name]}"
        for name in days
    ]
    assert told[:4] == rows
    assert [line.partition(":")[0] for line in told[4:]] == [f"{name} closed keys" for name in NAMES]


def test_progress_that_stands_still_frees_nothing() -> None:
    """Without a window or punctuations, orders stay, and the time of what is paid with them."""
    pipeline = two_stages(served={"window": "1d"}, unbounded_state="refuse")
    with pytest.raises(ConfigError) as caught:
        require_bounded(pipeline)
    assert (
        "tickets rows: unbounded, since the progress of paid waits for orders rows, which stay, and no "
        "stream of paid has punctuations on customer_id"
    ) in str(caught.value)
    mended = two_stages(paid={"window": "2d"}, served={"window": "1d"}, unbounded_state="refuse")
    require_bounded(mended)


def test_presets_that_announce_no_pattern_close_nothing_behind() -> None:
    promised = two_stages(paid={"preset": "pjoin"}, promised=PROMISED, served={})
    assert promised.last_stage.promises.closers == {}
    assert two_stages(promised=PROMISED).last_stage.promises.closers == {"orders": ("customer_id",)}
