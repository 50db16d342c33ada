"""Row steps behind a join: the columns behind them, what may use these, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from endmark.errors import ConfigError
from endmark.pipeline import Pipeline
from endmark.pipeline.file import load
from endmark.pipeline.picture import drawn
from support.stepped_joins import LATE, stepped


def test_columns_behind_a_join() -> None:
    """Derived columns come from the join, and go on into the next stage."""
    pipeline = stepped(
        None, {"where": "late", "drop": "paid.late"}, by=["paid.twice"], lookup=("paid", {"miss": "nulls"})
    )
    first, second = pipeline.stages

    assert [step.name for step in first.columns.row_steps] == ["late"]
    assert [name for name, _ in first.columns.of_results][-2:] == ["paid_late", "paid_twice"]
    assert "payments_payer_id" in dict(first.columns.joined)
    assert "payments_payer_id" not in dict(first.columns.of_results)
    assert {"paid_twice", "sellers_name"} <= pipeline.result_columns().keys()
    assert "paid_late" not in pipeline.result_columns()
    assert {name: str(kind) for name, kind in pipeline.groups[0].columns().items()} == {
        "paid_twice": "long",
        "n": "long",
    }
    assert second.derived == "paid"


def test_a_derived_key_of_the_next_stage() -> None:
    """It stands for a column of this name that was dropped."""
    late = {"derive": {"customer_id": "payer_id + 1"}, "drop": "orders.customer_id"}

    assert stepped(late).last_stage.key_columns("paid") == ("paid_customer_id",)


def test_a_lookup_by_a_derived_column() -> None:
    pipeline = stepped(lookup=("paid", {}), asking="twice")

    assert pipeline.asked_by(pipeline.lookups[0]).key[0].in_results == "paid_twice"


def test_a_picture_has_them() -> None:
    picture = drawn(stepped())

    assert 'step_late["late<br>filter, derive late, twice, drop payer_id"]' in picture
    assert "step_paid --> step_late" in picture
    assert "step_late --> step_served" in picture


@pytest.mark.parametrize(
    ("late", "fields", "says"),
    [
        ({"where": "price > 0"}, {}, "steps.late.where: no column 'price'; there are orders.order_id"),
        (
            {"where": '"at" is null'},
            {},
            "steps.late.where: 'at' may be one of orders.at and payments.at; write",
        ),
        ({"where": "orders.at"}, {}, "steps.late.where: '\"orders_at\"' is of type TIMESTAMP"),
        ({"where": "orders.at > now()"}, {}, "steps.late.where: 'now' is no function that depends"),
        ({"where": "a.b.c"}, {}, "steps.late.where: no column 'a.b.c'"),
        ({"where": "orders.at >"}, {}, "steps.late.where: Parser Error"),
        ({"derive": {"x": "[1]"}}, {}, "steps.late.derive.x: '[1]' is of type INTEGER[]"),
        ({"derive": {"order_id": "1"}}, {}, "steps.late.derive.order_id: this name is taken by the key of"),
        (
            {"derive": {"kafka_offset": "1"}},
            {},
            "late.derive.kafka_offset: this name is taken by coordinates",
        ),
        ({"drop": "nothing"}, {}, "steps.late.drop: no column 'nothing'; there are orders.order_id"),
        (
            {"drop": "orders.at"},
            {},
            "steps.late.drop: columns are lost that must stay: 'orders.at' is an event",
        ),
        (
            {"select": ["orders.at", "payments.at", "orders.order_id"]},
            {},
            "steps.late.select: columns are lost that must stay: 'payments.order_id' is in steps.paid.on",
        ),
        (
            {"drop": "customer_id"},
            {"promised": {"orders": ["customer_id", "order_id"]}},
            "steps.late.drop: columns are lost that must stay: 'orders.customer_id' is in streams",
        ),
        (
            {"deduplicate": {"by": "order_id"}},
            {},
            "steps.late.deduplicate: results of paid are no duplicates of each other; deduplicate a stream",
        ),
        ({"drop": "customer_id"}, {}, "steps.served.on: paid has no column 'customer_id'; it has order_id"),
        (
            LATE,
            {"by": ["payments.payer_id"]},
            "steps.grouped.aggregate.by: no column 'payer_id'; there are order_id",
        ),
    ],
)
def test_refused_steps(late: dict[str, Any], fields: dict[str, Any], says: str) -> None:
    """The error names the place, and what to do."""
    with pytest.raises((ConfigError, ValidationError)) as caught:
        stepped(late, **fields)
    assert says in str(caught.value)


def test_first_and_last_need_an_event_time() -> None:
    """The results of a right join may lack the row whose event time they have."""
    document = _grouped({"first": "late"}, type="right")
    with pytest.raises(
        ValidationError, match=r"first goes by the event time of orders, which results of paid"
    ):
        Pipeline.model_validate(document)
    assert Pipeline.model_validate(_grouped({"first": "late"})).timed_by("paid") == "orders"


def test_tables_have_the_last_step_alone() -> None:
    document = _grouped({"max": "late"})
    document["tables"]["paid"] = {}
    with pytest.raises(
        ValidationError,
        match=r"tables.paid: row steps behind paid change its results before they come",
    ):
        Pipeline.model_validate(document)
    document = _grouped({"max": "late"})
    document["tables"]["late"] = {"mode": "upsert", "key": "order_id"}
    with pytest.raises(ValidationError, match=r"tables.late.mode: upsert is for the groups of an aggregate"):
        Pipeline.model_validate(document)


def test_a_relation_has_another_name_than_the_join() -> None:
    document = stepped(lookup=("paid", {})).model_dump()
    document["relations"]["paid"] = document["relations"].pop("sellers")
    document["steps"]["known"]["lookup"]["relation"] = "paid"
    with pytest.raises(ValidationError, match=r"relations.paid: a join has this name, too, and columns"):
        Pipeline.model_validate(document)


def test_rows_of_a_join_that_have_been_looked_up() -> None:
    """They have no row steps of their own."""
    document = stepped(lookup=("paid", {})).model_dump()
    document["steps"]["more"] = {"from": "known", "where": "name is null"}
    document["steps"]["served"]["join"] = ["more", "tickets"]
    with pytest.raises(ValidationError, match=r"steps.more.from: rows of paid have been looked up; let this"):
        Pipeline.model_validate(document)


def test_an_error_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    whole = stepped().model_dump()
    file.write_text(
        yaml.safe_dump(
            {
                "name": "stages",
                "streams": {
                    name: {
                        "topic": name,
                        "columns": {column: str(kind) for column, kind in stream["columns"].items()},
                        "event_time": {"column": "at"},
                    }
                    for name, stream in whole["streams"].items()
                    if name != "tickets"
                },
                "steps": {
                    "paid": {"join": ["orders", "payments"], "on": "order_id"},
                    "late": {"from": "paid", "derive": {"late": "payments.at > nothing"}},
                },
                "tables": {"late": {}},
                "unbounded_state": "allow",
            }
        )
    )
    line = file.read_text().splitlines().index("      late: payments.at > nothing") + 1
    with pytest.raises(
        ConfigError, match=rf"line {line}: steps.late.derive.late: no column 'nothing'; there"
    ):
        load(file, {})


def _grouped(measure: dict[str, str], **paid: Any) -> dict[str, Any]:
    """One join with a row step and groups behind it."""
    document: dict[str, Any] = stepped(paid=paid if paid != {"type": "right"} else {}).model_dump()
    del document["streams"]["tickets"], document["steps"]["served"]
    document["steps"]["paid"] |= paid
    document["steps"]["grouped"] = {
        "from": "late",
        "aggregate": {"by": "order_id", "measures": {"m": measure}},
    }
    return document | {"tables": {"grouped": {"mode": "changes"}}}
