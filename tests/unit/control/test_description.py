"""The description of a pipeline: its steps, its tables and topics, and the steps that they come from."""

from __future__ import annotations

from endmark.control.description import SinkDescription, describe
from support.fulfilment import FULFILMENT
from support.verify_alone import alone
from support.verify_world import make_pipeline


def test_steps_are_told_by_name_with_kind_inputs_and_relation() -> None:
    told = describe(FULFILMENT)
    assert [tuple(step.model_dump().values()) for step in told.steps] == [
        ("priced", "rows", ["orders"], None),
        ("known", "lookup", ["priced"], "customers"),
        ("located", "lookup", ["known"], "countries"),
        ("fulfilled", "join", ["located", "payments", "shipments"], None),
        ("by_country", "aggregate", ["fulfilled"], None),
    ]
    assert told.topics == {"orders": "orders", "payments": "payments", "shipments": "shipments"}
    assert [lookup.field for lookup in told.lookups] == ["steps.known.lookup", "steps.located.lookup"]
    assert told.join == "steps.fulfilled"


def test_tables_and_topics_are_told_with_their_steps() -> None:
    told = describe(FULFILMENT)
    assert told.tables == [
        SinkDescription(name="fulfilled", rows="results", step="fulfilled"),
        SinkDescription(name="by_country", rows="running", step="by_country"),
        SinkDescription(name="dead_letters", rows="dead_letters", step="fulfilled"),
        SinkDescription(name="violations", rows="violations", step="fulfilled"),
        SinkDescription(name="punctuations", rows="punctuations", step="fulfilled"),
    ]
    assert told.published == [SinkDescription(name="fulfilled", rows="results", step="fulfilled")]


def test_a_topic_of_groups_is_told_as_their_table() -> None:
    document = FULFILMENT.model_dump(by_alias=True)
    document["publish"] |= {"by_country": {"topic": "countries", "mode": "changes"}}
    told = describe(type(FULFILMENT).model_validate(document))
    assert told.published[1] == SinkDescription(name="countries", rows="running", step="by_country")


def test_a_table_without_from_has_the_rows_of_the_step_of_its_name() -> None:
    """A table with `from` has those of that step."""
    renamed = FULFILMENT.model_dump()
    renamed["tables"] = {"fulfilled": {}, "countries_so_far": {"from": "by_country", "mode": "changes"}}
    told = describe(type(FULFILMENT).model_validate(renamed))
    assert {table.name: table.step for table in told.tables[:2]} == {
        "fulfilled": "fulfilled",
        "countries_so_far": "by_country",
    }


def test_a_stream_alone_is_the_source_of_its_tables() -> None:
    """It has no join, and here no lookup either."""
    told = describe(alone(make_pipeline(), "items"))
    assert told.join is None
    assert not {"lookup", "join"} & {step.kind for step in told.steps}
    assert {table.step for table in told.tables if table.rows not in ("groups", "running")} == {"items"}
