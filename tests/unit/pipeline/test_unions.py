"""Unions in a pipeline file: their columns and bounds, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from endmark.errors import ConfigError
from endmark.pipeline import Pipeline
from endmark.pipeline.boundedness import require_bounded, states
from endmark.pipeline.explanation import explained
from endmark.pipeline.picture import drawn
from endmark.planning.join_forecast import is_predictable
from support.unions import COLUMNS, document, pipeline


def stepped(changes: dict[str, Any], **steps: Any) -> Pipeline:
    """The pipeline with changed streams, and further or changed steps."""
    found = document(**changes)
    return Pipeline.model_validate(found | {"steps": found["steps"] | steps})


def test_a_union_is_one_stream() -> None:
    found = pipeline()
    assert found.sides == found.shown == ("orders", "payments")
    assert list(found.read_streams) == ["web", "stores", "payments"]
    assert list(found.result_columns())[:3] == ["orders_order_id", "orders_total", "orders_moment"]
    assert found.stage_of("web").inputs == found.stage_of("orders").inputs == ("orders", "payments")
    assert found.references.result_column("orders.total") == "orders_total"
    assert not is_predictable(found)


def test_row_steps_bring_members_to_the_same_columns() -> None:
    """A column may be null if it may be so in one member, and derived ones may always be."""
    web = {"columns": {"moment": "timestamp", "order_id": "long", "cents": "long", "agent": "string?"}}
    found = stepped(
        {"web": web},
        priced={"from": "web", "derive": {"total": "cents // 100"}, "drop": ["cents", "agent"]},
        orders={"union": ["stores", "priced"]},
    )
    assert {name: str(kind) for name, kind in found.stream_columns("orders").items()} == {
        "order_id": "long",
        "total": "long?",
        "moment": "timestamp",
    }


def test_all_members_must_close_keys_to_bound_state() -> None:
    require_bounded(pipeline())
    assert "by orders' punctuations on order_id" in str(states(pipeline())[1])
    with pytest.raises(ConfigError) as caught:
        require_bounded(pipeline(stores={"punctuated_on": []}))
    assert "stores has no punctuations" in str(caught.value)
    assert "declare streams.stores.punctuated_on: [order_id]" in str(caught.value)


def test_members_may_close_keys_in_different_ways() -> None:
    rule = {"punctuated_on": [], "closes": {"on": "order_id", "when": "total = 0"}}
    found = states(pipeline(stores=rule))
    assert "orders' punctuations and closing rule on order_id" in str(found[1])


@pytest.mark.parametrize(
    ("changes", "steps", "says"),
    [
        ({}, {"orders": {"union": ["web"]}}, "at least 2 items"),
        ({}, {"orders": {"union": ["web", "shops"]}}, "steps.orders.union: 'shops' is not one of streams"),
        ({}, {"orders": {"union": ["web", "web"]}}, "'web' stands twice"),
        (
            {},
            {"paid": {"join": ["orders", "web", "payments"], "on": "order_id"}},
            "steps.paid: 'web' goes to step orders already",
        ),
        (
            {"web": {"columns": COLUMNS | {"agent": "string"}}},
            {},
            "steps.orders.union: web has column 'agent', which stores has not; derive it in a row step",
        ),
        (
            {"stores": {"columns": COLUMNS | {"agent": "string"}}},
            {},
            "steps.orders.union: stores has column 'agent', which web has not",
        ),
        (
            {"stores": {"columns": COLUMNS | {"total": "double"}}},
            {},
            "steps.orders.union: column 'total' is long in web, but double in stores; cast it",
        ),
        (
            {
                "web": {"columns": COLUMNS | {"sent": "timestamp"}},
                "stores": {
                    "columns": COLUMNS | {"sent": "timestamp"},
                    "event_time": {"column": "sent", "ahead": None},
                },
            },
            {},
            "steps.orders.union: the event time is 'moment' in web, but 'sent' in stores",
        ),
        (
            {"stores": {"unique": "order_id"}},
            {},
            "streams.stores.unique: orders has the partitions of web, too",
        ),
        (
            {"stores": {"forget_keys_after": "5s"}},
            {},
            "streams.stores.forget_keys_after: orders closes a key once all members have closed it",
        ),
        (
            {},
            {
                "once": {"from": "web", "deduplicate": {"by": "order_id"}},
                "orders": {"union": ["once", "stores"]},
            },
            "there they are rows of orders; let a row step behind orders deduplicate them",
        ),
        (
            {"stores": {"columns": COLUMNS | {"agent": "string"}}},
            {
                "lean": {"from": "orders", "drop": ["agent"]},
                "paid": {"join": ["lean", "payments"], "on": "order_id"},
            },
            "steps.orders.union: stores has column 'agent', which web has not",
        ),
        (
            {},
            {
                "timed": {"from": "orders", "derive": {"minute": "date_trunc('minute', missing)"}},
                "paid": {"join": ["timed", "payments"], "on": "order_id"},
            },
            "steps.timed.derive.minute",
        ),
        (
            {},
            {
                "all": {"union": ["web", "stores"]},
                "orders": {"union": ["all", "payments"]},
                "paid": {"from": "orders", "aggregate": {"by": "order_id", "measures": {"rows": "count"}}},
                "by_order": None,
            },
            "a union takes rows of streams and of row steps; name the members of all here",
        ),
    ],
)
def test_what_is_no_union_is_refused(changes: Any, steps: Any, says: str) -> None:
    """The error names the step or the stream, and what to do."""
    found = document(**changes)
    chosen = {name: step for name, step in (found["steps"] | steps).items() if step is not None}
    tables = {name: table for name, table in found["tables"].items() if name in chosen}
    with pytest.raises((ValidationError, ConfigError)) as caught:
        Pipeline.model_validate(found | {"steps": chosen, "tables": tables})
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"from": "web"}, "rows of web go on as rows of the union orders; name orders here"),
        (
            {"from": "orders", "mode": "upsert", "key": "order_id"},
            "a key of an upserted table lives in one partition, and orders has those of several topics",
        ),
    ],
)
def test_tables_of_members_are_refused(table: dict[str, Any], says: str) -> None:
    found = document()
    with pytest.raises(ValidationError, match=says):
        Pipeline.model_validate(found | {"tables": found["tables"] | {"more": table}})
    Pipeline.model_validate(found | {"tables": found["tables"] | {"more": {"from": "orders"}}})


TIMED = {
    "timed": {"from": "orders", "where": "total > 0", "derive": {"minute": "date_trunc('minute', moment)"}},
    "once": {"from": "timed", "deduplicate": {"by": "order_id"}},
    "paid": {"join": ["once", "payments"], "on": "order_id"},
}


def test_row_steps_behind_a_union_are_those_of_each_member() -> None:
    found = stepped({}, **TIMED)
    assert [step.name for step in found.row_steps_of("web")] == ["timed", "once"]
    assert [step.name for step in found.row_steps_of("stores")] == ["timed", "once"]
    assert not found.row_steps_of("orders")
    assert list(found.result_columns())[:4] == [f"orders_{each}" for each in (*COLUMNS, "minute")]
    for name in ("orders", "web", "stores"):
        step, declared = found.deduplicate_of(name) or pytest.fail(name)
        assert (step, declared.by) == ("once", ("order_id",))


def test_a_plan_tells_row_steps_behind_a_union() -> None:
    (web, stores, _) = explained(stepped({}, **TIMED)).reads
    assert [each.step for each in web.steps] == [each.step for each in stores.steps]
    assert [each.step for each in web.steps] == ["orders", "timed", "once"]


@pytest.mark.parametrize("source", ["orders", "timed"])
def test_a_table_of_a_union_has_its_rows_behind_the_row_steps(source: str) -> None:
    found = document()
    changed = found | {"steps": found["steps"] | TIMED}
    with pytest.raises(ValidationError, match=f"row steps behind {source} change its rows .* name once here"):
        Pipeline.model_validate(changed | {"tables": found["tables"] | {"more": {"from": source}}})
    tabled = Pipeline.model_validate(changed | {"tables": found["tables"] | {"more": {"from": "once"}}})
    assert "orders_minute" in tabled.outputs.columns_of("step:once")


def test_a_column_of_a_union_is_a_derived_time_if_it_is_one_of_each_member() -> None:
    aggregate = {"by": "orders.minute", "measures": {"rows": "count"}}
    by_minute = {"by_order": {"from": "paid", "aggregate": aggregate}}
    minute = {"minute": "date_trunc('minute', moment)"}

    def derived(of_stores: str) -> Pipeline:
        return stepped(
            {},
            web_timed={"from": "web", "derive": minute},
            stores_timed={"from": "stores", "derive": {"minute": of_stores}},
            orders={"union": ["web_timed", "stores_timed"]},
            **by_minute,
        )

    assert stepped({}, **TIMED, **by_minute).derived_times.keys() == {"orders"}
    (times,) = derived("moment - interval '1 minute'").derived_times.values()
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    bound = times.bounds(round(1e6 * noon.timestamp()))["orders_minute"]
    # No row of the stores has a minute before 11:59, so that minute itself may still come.
    assert bound.written == {"between": {"to": "2026-01-01T11:58:59.999999Z"}}
    with pytest.raises(ValidationError, match="of the event time of orders or payments, in a row step"):
        derived("date_trunc('minute', moment) + total * interval '1 second'")


def test_groups_by_a_column_of_a_union_need_promises_of_all_members() -> None:
    aggregate = {"by": "orders.total", "measures": {"rows": "count"}}
    with pytest.raises(ValidationError) as caught:
        stepped({}, by_order={"from": "paid", "aggregate": aggregate})
    assert ("set streams.web.punctuated_on and streams.stores.punctuated_on: [order_id, total]") in str(
        caught.value
    )


def test_a_union_is_drawn() -> None:
    lines = drawn(pipeline()).splitlines()
    assert '  step_orders["orders<br>union"]' in lines
    assert {"  stream_web --> step_orders", "  stream_stores --> step_orders"} <= set(lines)
