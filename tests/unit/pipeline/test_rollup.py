"""Aggregates of final groups: their columns, what closes them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from endmark.pipeline import Pipeline
from endmark.pipeline.boundedness import require_bounded, states
from endmark.pipeline.explanation import explained
from support.verify_keys import COMPOSITE
from support.verify_world import make_pipeline

FIRST = {"rows": "count", "top": {"max": "items.seller_id"}, "all": {"sorted": "items.seller_id"}}


def rolled_up(
    by: Any,
    measures: dict[str, Any] | None = None,
    *,
    name: str = "totals",
    groups: tuple[str, ...] = ("item_id", "lot"),
    first: dict[str, Any] | None = None,
    tables: dict[str, Any] | None = None,
    steps: dict[str, Any] | None = None,
    **fields: Any,
) -> Pipeline:
    """Auctions whose groups are grouped once more."""
    plain = make_pipeline(keys=COMPOSITE, aggregated=False, windows=(None, None), **fields)
    document: dict[str, Any] = plain.model_dump(by_alias=True)
    document["steps"] |= {
        "grouped": {
            "from": plain.flow.results,
            "aggregate": {"by": groups, "measures": FIRST | (first or {})},
        },
        name: {"from": "grouped", "aggregate": {"by": by, "measures": measures or {"groups": "count"}}},
        **(steps or {}),
    }
    document["tables"] = {"totals": {"mode": "upsert"}} if tables is None else tables
    return Pipeline.model_validate(document)


def test_columns_are_named_as_in_the_table_of_groups() -> None:
    pipeline = rolled_up(["lot", "rows"], {"groups": "count", "sum": {"sum": "top"}, "mean": {"avg": "rows"}})
    assert {name: str(kind) for name, kind in pipeline.outputs.columns_of("running:totals").items()} == {
        "lot": "string",
        "rows": "long",
        "groups": "long",
        "sum": "long",
        "mean": "double",
        "final": "boolean",
        "batch": "long",
    }
    assert pipeline.outputs.key_of("running:totals") == ("lot", "rows")
    assert next(iter(pipeline.outputs.directories)) == "running:totals"


@pytest.mark.parametrize("mode", ["upsert", "changes"])
def test_texts_of_the_key_are_no_partitions_of_running_groups_of_groups(mode: str) -> None:
    """A measure may be null or an empty text. Delta reads null for both, so a table had two rows of a group,
    and lost one of them when the other one changed."""
    first, tables = {"name": {"max": "sellers.name"}}, {"totals": {"mode": mode, "partition_by": "rows"}}
    assert rolled_up(["name", "rows"], first=first, tables=tables)
    tables["totals"]["partition_by"] = "name"

    with pytest.raises(ValidationError, match=r"tables.totals.partition_by: column 'name' is a text of the"):
        rolled_up(["name", "rows"], first=first, tables=tables)


@pytest.mark.parametrize(
    ("by", "groups", "closers"),
    [
        ("lot", ("item_id", "lot"), {"items": ("lot",), "bids": ("lot",)}),
        ("rows", ("item_id", "lot"), {}),
        (["rows", "lot"], ("item_id", "lot"), {"items": ("lot",), "bids": ("lot",)}),
        ("items_seller_id", ("items.seller_id", "sellers.name"), {"items": ("seller_id",)}),
        ("sellers_name", ("items.seller_id", "sellers.name"), {}),
    ],
)
def test_streams_that_promise_columns_of_the_key_close_groups_of_groups(
    by: Any, groups: tuple[str, ...], closers: dict[str, tuple[str, ...]]
) -> None:
    pipeline = rolled_up(by, groups=groups, wider=("seller_id",), lookup="items")
    [rollup] = pipeline.rollups
    assert rollup.closers == closers
    require_bounded(pipeline)
    (state,) = (one for one in states(pipeline) if one.input == "totals")
    assert [bound.closed_by for bound in state.bounded_by] == [(stream,) for stream in closers]
    assert state.declared == (not closers)


def test_a_sum_of_decimals_is_added_once_more() -> None:
    """It has 38 digits. No other column of so many may be added."""
    sums = {"tips": {"sum": "bids.tip"}}
    pipeline = rolled_up("rows", {"sum": {"sum": "tips"}, "mean": {"avg": "tips"}}, first=sums)
    columns = pipeline.outputs.columns_of("running:totals")
    assert (str(columns["sum"]), str(columns["mean"])) == ("decimal(38,2)", "double")


def test_groups_of_groups_are_explained() -> None:
    found = explained(rolled_up("rows", tables={"totals": {"mode": "upsert"}, "grouped": {}}))
    stage = found.stages[-1]
    assert (stage.key, stage.inputs) == (("rows",), ("grouped",))
    assert stage.state == ("totals groups: one for each value of rows, for totals",)
    finals = {output.name: output.final for output in found.outputs}
    assert finals["totals"] == "a group's row is never final"
    assert finals["grouped"].startswith("a group has one row, which comes when it is final: by ")


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"by": "lots"}, "steps.totals.aggregate.by: no column 'lots'"),
        ({"by": "all"}, "steps.totals.aggregate.by: column 'all' is array<long>; name one of single values"),
        (
            {"by": "mean", "first": {"mean": {"avg": "items.seller_id"}}},
            "declare it long, string or decimal(18,2), derive such a column of it, or name another one",
        ),
        (
            {"by": "lot", "measures": {"sum": {"sum": "lot"}}},
            "steps.totals.aggregate.measures.sum: lot is string, which does not add up; sum takes numbers",
        ),
        (
            {"by": "lot", "measures": {"one": {"first": "rows"}}},
            "first goes by the place of a row, and groups of grouped have none; write min or max",
        ),
        (
            {"by": "lot", "measures": {"one": {"sorted": "all"}}},
            "steps.totals.aggregate.measures.one: column 'all' is array<long>; name one of single values",
        ),
        (
            {"by": "rows", "tables": {"totals": {}}},
            "would ever close; write the groups so far: tables.totals: {from: totals, mode: upsert}",
        ),
        (
            {"by": ["rows", "lot", "item_id"]},
            "steps.totals.aggregate.by: rows, lot, item_id has the whole key of grouped, so each group would",
        ),
        ({"by": "lot", "tables": {"grouped": {}}}, "steps.totals: no table or topic has its groups"),
        (
            {"by": "top", "groups": ("items.seller_id",)},
            "so no group would ever close; set streams.items.punctuated_on: [item_id, lot, seller_id]",
        ),
        (
            {
                "by": "lot",
                "steps": {
                    "more": {"from": "totals", "aggregate": {"by": "groups", "measures": {"n": "count"}}}
                },
                "tables": {"more": {"mode": "upsert"}},
            },
            "steps.more: it is the third aggregate in a row, and a pipeline has two; end it with totals",
        ),
        (
            {
                "by": "lot",
                "steps": {"few": {"from": "totals", "where": "groups < 2"}},
                "tables": {"few": {}},
            },
            "steps.totals: the rows of this aggregate go to a step that is no aggregate",
        ),
    ],
)
def test_what_cannot_be_grouped_once_more_is_refused(fields: dict[str, Any], error: str) -> None:
    with pytest.raises(ValidationError) as refused:
        rolled_up(**fields)
    assert error in str(refused.value)
