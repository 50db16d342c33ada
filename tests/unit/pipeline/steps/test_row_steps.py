"""Row steps of a pipeline file: the columns behind them, what may use these, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from endmark.engine.bucket.lookup_levels import lookup_positions, placed_steps
from endmark.engine.streams import residual, stream_plans
from endmark.errors import ConfigError
from endmark.pipeline import Pipeline
from endmark.pipeline.boundedness import State, states
from endmark.pipeline.file import load
from endmark.pipeline.picture import drawn

ORDERS: dict[str, Any] = {
    "topic": "orders",
    "columns": {
        "order_id": "long",
        "customer": "string",
        "total": "decimal(18,2)",
        "note": "string?",
        "ordered_at": "timestamp",
    },
    "event_time": {"column": "ordered_at"},
    "unique": "order_id",
}
PAYMENTS: dict[str, Any] = {
    "topic": "payments",
    "columns": {"order_id": "long", "amount": "decimal(18,2)", "paid_at": "timestamp"},
    "event_time": {"column": "paid_at"},
    "punctuated_on": "order_id",
}
CUSTOMERS = {
    "url": "sqlite://",
    "table": "customers",
    "key": "customer_id",
    "columns": {"customer_id": "long", "name": "string"},
}
PRICED: dict[str, Any] = {
    "from": "orders",
    "where": "total > 0",
    "derive": {"gross": "total * 1.19", "customer_id": "cast(substr(customer, 2) as bigint)"},
    "drop": ["customer", "note"],
}
STEPS: dict[str, Any] = {
    "priced": PRICED,
    "dear": {"from": "priced", "where": "gross > 100"},
    "known": {"from": "dear", "lookup": {"relation": "customers", "key": "customer_id"}},
    "paid": {"join": ["known", "payments"], "on": "order_id", "where": "payments_amount < orders_gross"},
    "by_order": {
        "from": "paid",
        "aggregate": {"by": "order_id", "measures": {"gross": {"max": "orders.gross"}}},
    },
}


def document(**steps: Any) -> dict[str, Any]:
    return {
        "name": "orders",
        "streams": {"orders": ORDERS, "payments": PAYMENTS},
        "relations": {"customers": CUSTOMERS},
        "steps": STEPS | steps,
        "tables": {"paid": {}, "by_order": {}},
    }


def loaded(tmp_path: Path, content: dict[str, Any]) -> Pipeline:
    file = tmp_path / "pipeline.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return load(file, {})


def test_columns_behind_row_steps(tmp_path: Path) -> None:
    """Derived columns are columns of the stream: for lookups, conditions, measures and tables."""
    pipeline = loaded(tmp_path, document())

    assert {name: str(kind) for name, kind in pipeline.stream_columns("orders").items()} == {
        "order_id": "long",
        "total": "decimal(18,2)",
        "ordered_at": "timestamp",
        "gross": "decimal(18,4)?",
        "customer_id": "long?",
    }
    assert list(pipeline.side_columns("orders")) == [
        "orders_order_id",
        "orders_total",
        "orders_ordered_at",
        "orders_gross",
        "orders_customer_id",
        "customers_name",
        "orders_kafka_partition",
        "orders_kafka_offset",
    ]
    assert str(pipeline.groups[0].columns()["gross"]) == "decimal(18,4)"
    assert residual(pipeline.last_stage) is not None
    plan = stream_plans(pipeline, {"orders": 1, "payments": 1})["orders"]
    assert [step.name for step in plan.steps] == ["priced", "dear"]
    assert list(plan.columns) == list(pipeline.stream_columns("orders"))


def test_a_picture_has_row_steps(tmp_path: Path) -> None:
    """It says what they do."""
    picture = drawn(loaded(tmp_path, document()))

    assert 'step_priced["priced<br>filter, derive gross, customer_id, drop customer, note"]' in picture
    assert "step_priced --> step_dear" in picture


def test_a_file_without_row_steps(tmp_path: Path) -> None:
    """Its streams have their own columns."""
    steps = {name: step for name, step in STEPS.items() if name not in ("priced", "dear", "known")}
    steps["paid"] = {"join": ["orders", "payments"], "on": "order_id"}
    steps["by_order"] = {"from": "paid", "aggregate": {"by": "order_id", "measures": {"rows": "count"}}}
    pipeline = loaded(tmp_path, document() | {"steps": steps, "relations": {}})

    assert pipeline.row_steps_of("orders") == ()
    assert pipeline.stream_columns("orders") == pipeline.streams["orders"].columns


def test_a_derived_key(tmp_path: Path) -> None:
    """No promise speaks of it, so the other stream closes the keys."""
    orders = {name: field for name, field in ORDERS.items() if name != "unique"}
    orders["columns"] = ORDERS["columns"] | {"order_id": "string"}
    derive = {"id": "cast(order_id as bigint)"}
    payments = PAYMENTS | {"columns": {"id": "long", **PAYMENTS["columns"]}, "punctuated_on": "id"}
    steps = {
        "numbered": {"from": "orders", "derive": derive},
        "paid": {"join": ["numbered", "payments"], "on": "id"},
        "by_order": {"from": "paid", "aggregate": {"by": "id", "measures": {"rows": "count"}}},
    }
    pipeline = loaded(
        tmp_path,
        document()
        | {"steps": steps, "relations": {}, "streams": {"orders": orders, "payments": payments}}
        | {"unbounded_state": "allow"},
    )

    plans = stream_plans(pipeline, {"orders": 1, "payments": 1})

    assert str(pipeline.key_types["id"]) == "long"
    assert plans["orders"].side.key.columns == ("orders_id",)
    assert plans["orders"].parser is not None
    plans["orders"].parser()


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        (
            {"priced": PRICED | {"where": "price > 0"}},
            "steps.priced.where: no column 'price'; there are order",
        ),
        ({"priced": PRICED | {"where": "total"}}, "steps.priced.where: 'total' is of type DECIMAL"),
        ({"priced": PRICED | {"derive": {"x": "[1]"}}}, "steps.priced.derive.x: '[1]' is of type INTEGER[]"),
        (
            {"priced": PRICED | {"derive": {"kafka_offset": "1"}}},
            "steps.priced.derive.kafka_offset: this name is taken by the record's coordinates",
        ),
        (
            {"priced": PRICED | {"drop": ["order_id", "ordered_at"]}},
            "priced.drop: columns are lost that must stay: 'ordered_at' is its event time, 'order_id' is",
        ),
        (
            {"dear": {"from": "priced", "select": ["total", "ordered_at"]}},
            "is in streams.orders.unique; keep them, or give them other names by streams.orders.taken_from",
        ),
        (
            {"dear": {"from": "priced", "select": ["total"], "drop": ["gross"]}},
            "steps.dear: drop: `select` names all columns that stay",
        ),
        ({"dear": {"from": "priced", "where": "note is null"}}, "steps.dear.where: no column 'note'"),
        (
            {"dear": {"from": "priced", "drop": ["customer_id"]}},
            "steps.known.lookup.key: no column 'customer_id'",
        ),
        (
            {"dear": {"from": "priced", "drop": ["gross"]}},
            "by_order.aggregate.measures.gross: no column 'gross'",
        ),
        (
            {"dear": {"from": "priced"}},
            "steps.dear: a step has one of lookup, union, join and aggregate, or where, derive",
        ),
        (
            {"last": {"from": "by_order", "where": "gross > 100"}},
            "steps.by_order: the rows of this aggregate go to a step that is no aggregate",
        ),
    ],
)
def test_refused_row_steps(tmp_path: Path, steps: dict[str, Any], says: str) -> None:
    """The error names the place, and what to do."""
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, document(**steps))
    assert says in str(caught.value)


NAMED: dict[str, Any] = {
    "from": "known",
    "where": "customers.name <> 'XX'",
    "derive": {"tag": "name || gross"},
}


def test_a_step_behind_a_lookup(tmp_path: Path) -> None:
    """Its derived columns are columns of the stream: for the join, tables, measures and the next lookup."""
    content = document(
        named=NAMED,
        paid=STEPS["paid"] | {"join": ["tagged", "payments"], "where": "orders_tag <> ''"},
        tagged={"from": "named", "lookup": {"relation": "tags", "key": "tag"}},
        by_order={
            "from": "paid",
            "aggregate": {"by": "order_id", "measures": {"tag": {"max": "orders.tag"}}},
        },
    )
    tags = {"table": "tags", "key": "id", "columns": {"id": "string", "colour": "string"}}
    content["relations"] = {"customers": CUSTOMERS, "tags": CUSTOMERS | tags}
    content["tables"]["tagged"] = {}
    pipeline = loaded(tmp_path, content)

    assert pipeline.asked_by(pipeline.lookup_in("tags")).key[0].in_results == "orders_tag"
    assert "tag" not in pipeline.stream_columns("orders")
    assert [*pipeline.outputs.columns_of("step:tagged")][-5:] == [
        "customers_name",
        "orders_tag",
        "tags_colour",
        "orders_kafka_partition",
        "orders_kafka_offset",
    ]
    places = lookup_positions(pipeline)
    assert (places["customers"].level, places["customers"].stepped, places["customers"].last) == (
        0,
        True,
        False,
    )
    assert (places["tags"].level, places["tags"].stepped, places["tags"].number) == (1, False, 4)
    assert places["tags"].found.names == ["customers_name", "orders_tag"]
    (placed,) = placed_steps(pipeline, "orders")
    assert placed.number == 1
    assert placed.failing == {2: "steps.named.where", 3: "steps.named.derive.tag"}
    assert stream_plans(pipeline, {"orders": 1, "payments": 1})["orders"].keeps_value


def test_columns_lost_behind_a_lookup(tmp_path: Path) -> None:
    """Results lose the column that asked and one that was found; tables of earlier steps have both."""
    content = document(
        named={"from": "known", "drop": ["orders.customer_id", "name"]},
        paid=STEPS["paid"] | {"join": ["named", "payments"]},
    )
    content["tables"]["known"] = {}
    pipeline = loaded(tmp_path, content)

    lost = ["orders_customer_id", "customers_name"]
    assert pipeline.stage_of("orders").columns.lost_before("orders") == lost
    assert stream_plans(pipeline, {"orders": 1, "payments": 1})["orders"].side.lost == tuple(lost)
    assert not {*lost} & {*pipeline.result_columns()}
    assert {*lost} < {*pipeline.outputs.columns_of("step:known")}
    assert not {"customer_id", "name"} & {
        *pipeline.references.origins["orders"],
        *pipeline.references.origins["customers"],
    }


@pytest.mark.parametrize("behind", ["known", "paid"], ids=["a lookup", "the join"])
def test_columns_of_duplicates_may_be_lost(tmp_path: Path, behind: str) -> None:
    """Duplicates are found before rows enter the join."""
    relations = {"customers": CUSTOMERS | {"columns": {"customer_id": "string", "name": "string"}}}
    given, end = ("named", "paid") if behind == "known" else ("known", "named")
    steps = {
        "once": {"from": "orders", "deduplicate": {"by": ["order_id", "note"]}},
        "known": {"from": "once", "lookup": {"relation": "customers", "key": "customer"}},
        "paid": {"join": [given, "payments"], "on": "order_id"},
        "named": {"from": behind, "drop": ["note"]},
    }
    streams = {"orders": TWICE | {"punctuated_on": "order_id"}, "payments": PAYMENTS}
    content = {**document(), "streams": streams, "relations": relations, "steps": steps}

    pipeline = loaded(tmp_path, content | {"tables": {"results": {"from": end}}})

    assert "orders_note" not in pipeline.result_columns()


def test_a_lost_column_is_not_asked_by(tmp_path: Path) -> None:
    """The key of R stands for the column that asked, so a measure of it is refused as well."""
    content = document(
        named={"from": "known", "drop": ["orders.customer_id"]},
        paid=STEPS["paid"] | {"join": ["named", "payments"]},
        by_order={
            "from": "paid",
            "aggregate": {"by": "order_id", "measures": {"last": {"max": "customers.customer_id"}}},
        },
    )
    with pytest.raises(ConfigError, match="customer_id"):
        loaded(tmp_path, content)


@pytest.mark.parametrize(
    ("steps", "tables", "says"),
    [
        (
            NAMED | {"where": "country = 'XX'"},
            {},
            "steps.named.where: no column 'country'; there are orders.",
        ),
        (
            NAMED | {"drop": ["order_id"]},
            {},
            "steps.named.drop: columns are lost that must stay: 'orders.order_id' is in steps.paid.on; keep",
        ),
        (
            NAMED | {"deduplicate": {"by": "order_id"}},
            {},
            "steps.named.deduplicate: it is not for rows that have been looked up",
        ),
        (
            NAMED | {"derive": {"gross": "1"}},
            {},
            "steps.named.derive.gross: there is a column 'orders_gross' already; name another one",
        ),
        (
            NAMED,
            {"known": {}},
            "tables.known: row step named may leave out rows of known before they come to their table",
        ),
    ],
)
def test_refused_steps_behind_a_lookup(
    tmp_path: Path, steps: dict[str, Any], tables: dict[str, Any], says: str
) -> None:
    """The error names the place, and what to do."""
    content = document(named=steps, paid=STEPS["paid"] | {"join": ["named", "payments"]})
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, content | {"tables": content["tables"] | tables})
    assert says in str(caught.value)


TWICE: dict[str, Any] = {key: value for key, value in ORDERS.items() if key != "unique"}


def deduplicating(by: Any, *, stream: dict[str, Any] = TWICE, **steps: Any) -> dict[str, Any]:
    known = STEPS["known"] | {"from": "priced"}
    found = document(**{"priced": PRICED | {"deduplicate": {"by": by}}, "known": known} | steps)
    del found["steps"]["dear"]
    return found | {"streams": {"orders": stream, "payments": PAYMENTS}, "unbounded_state": "allow"}


def test_a_step_that_drops_duplicates(tmp_path: Path) -> None:
    """It stands in the last row step; its values have the columns of the key first."""
    pipeline = loaded(tmp_path, deduplicating(["customer_id", "order_id"]))

    deduplication = stream_plans(pipeline, {"orders": 1, "payments": 1})["orders"].side.deduplication
    assert deduplication is not None
    assert (deduplication.step, deduplication.others) == ("priced", ("orders_customer_id",))
    assert deduplication.within is None
    assert "deduplicate by customer_id, order_id" in drawn(pipeline)
    assert list(pipeline.stream_columns("orders")) == [
        "order_id",
        "total",
        "ordered_at",
        "gross",
        "customer_id",
    ]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (
            deduplicating("customer_id"),
            "steps.priced.deduplicate.by: 'order_id' of steps.paid.on is missing",
        ),
        (
            deduplicating("customer_id"),
            "write by: [customer_id, order_id], as duplicates have the same key anyhow",
        ),
        (
            deduplicating(["order_id", "nowhere"]),
            "steps.priced.deduplicate.by: no column 'nowhere'; there are",
        ),
        (
            deduplicating("order_id", stream=ORDERS),
            "steps.priced.deduplicate: a second row of a key is a violation, since streams.orders.unique",
        ),
        (
            deduplicating(
                "order_id",
                dearest={"from": "priced", "where": "gross > 1"},
                known=STEPS["known"] | {"from": "dearest"},
            ),
            "write steps.dearest.deduplicate instead, or let dearest stand before priced",
        ),
    ],
)
def test_what_is_no_rule_for_duplicates(tmp_path: Path, content: dict[str, Any], error: str) -> None:
    """The error names the field and the remedy."""
    with pytest.raises(ConfigError) as raised:
        loaded(tmp_path, content)
    assert error in str(raised.value)


def test_duplicates_need_time_or_closed_keys(tmp_path: Path) -> None:
    """Otherwise all values would be remembered."""
    content = deduplicating("order_id")
    pipeline = loaded(tmp_path, content)
    assert str(seen(pipeline)) == (
        "orders seen values: unbounded, since steps.priced.deduplicate.within is not set and orders has no "
        "punctuations"
    )
    content["steps"]["priced"]["deduplicate"]["within"] = "1h"
    content["streams"]["orders"] = TWICE | {"punctuated_on": "order_id"}
    assert str(seen(loaded(tmp_path, content))) == (
        "orders seen values: bounded by forgetting them 1 hour after orders' progress and by orders' "
        "punctuations on order_id"
    )


def seen(pipeline: Pipeline) -> State:
    (found,) = [state for state in states(pipeline) if state.holds == "seen values"]
    return found


def test_the_key_of_a_stream_alone_that_is_deduplicated(tmp_path: Path) -> None:
    """It is the columns of `by` that are not nullable, if the stream promises nothing."""
    content = deduplicating(["order_id", "customer_id"])
    content["streams"] = {"orders": TWICE}
    del content["steps"]["paid"], content["steps"]["by_order"]
    content["tables"] = {"known": {}}

    assert loaded(tmp_path, content).last_stage.named_key == ("steps.priced.deduplicate.by", ("order_id",))
