"""Row steps of a pipeline file: the columns behind them, what may use these, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from endmark.engine.streams import residual, stream_plans
from endmark.errors import ConfigError
from endmark.pipeline import Pipeline
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
    assert str(pipeline.group_columns()["gross"]) == "decimal(18,4)"
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
            "steps.dear.select: columns are lost that must stay: 'order_id' is in streams.orders.unique",
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
            "steps.dear: a step has one of lookup, join and aggregate, or where, derive",
        ),
        (
            {
                "known": STEPS["known"] | {"from": "priced"},
                "dear": {"from": "known", "where": "gross > 100"},
                "paid": {"join": ["dear", "payments"], "on": "order_id"},
            },
            "steps.dear.from: known is no row step; row steps stand before lookups and joins",
        ),
        (
            {
                "big": {"from": "paid", "where": "gross > 100"},
                "by_order": STEPS["by_order"] | {"from": "big"},
            },
            "steps.big.from: paid is no row step; row steps stand before lookups and joins",
        ),
        (
            {"last": {"from": "by_order", "where": "gross > 100"}},
            "steps.last.from: by_order is no row step; row steps stand before lookups and joins",
        ),
    ],
)
def test_refused_row_steps(tmp_path: Path, steps: dict[str, Any], says: str) -> None:
    """With the place and what to do."""
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, document(**steps))
    assert says in str(caught.value)
