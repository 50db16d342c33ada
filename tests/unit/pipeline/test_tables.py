"""The tables of a pipeline: their names, how they are written, and which layouts are refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

from endmark.pipeline import Pipeline, Tables
from support.verify_world import make_pipeline

MEASURES = {"bids": "count", "prices": {"sorted": "bids.price"}, "dearest": {"max": "bids.note"}}
PIPELINE = make_pipeline(running=True, measures=MEASURES)
ALL = ["item_id", "bids", "dearest"]


def with_tables(tables: dict[str, Any], **changed: Any) -> Pipeline:
    return Pipeline.model_validate(PIPELINE.model_dump() | {"tables": tables} | changed)


def test_a_table_may_be_its_name_alone() -> None:
    short = with_tables({"groups": "totals", "running": "now"})
    assert short == with_tables({"groups": {"name": "totals"}, "running": {"name": "now"}})
    assert short.tables.directories == Tables().directories | {"groups": "totals", "running": "now"}


def test_running_groups_are_upserted_by_partition() -> None:
    """A batch rewrites no file of final groups."""
    tables = with_tables({"running": {"mode": "upsert", "partition_by": "dearest"}}).tables
    assert tables.running.partition_columns == ("dearest", "final")
    assert with_tables({"running": {"partition_by": "dearest"}}).tables.running.partition_columns == (
        "dearest",
    )


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        (
            {"groups": {"partition_by": "prices"}},
            "tables.groups.partition_by: column 'prices' is array<double>; name one of single values",
        ),
        (
            {"results": {"partition_by": "bids_tip"}},
            "tables.results.partition_by: column 'bids_tip' is decimal(6,2), and delta-rs misreads fractions",
        ),
        (
            {"running": {"partition_by": "final"}},
            "tables.running.partition_by: leave 'final' to mode: upsert, which partitions by it",
        ),
        (
            {"running": {"partition_by": ["final"], "mode": "upsert"}},
            "tables.running.partition_by: leave 'final' to mode: upsert, which partitions by it",
        ),
        (
            {"groups": {"cluster_by": "prices"}},
            "tables.groups.cluster_by: column 'prices' is array<double>; leave it out",
        ),
        (
            {"running": {"cluster_by": "final", "mode": "upsert"}},
            "tables.running.cluster_by: leave it out, or choose mode: append, whose files can be sorted",
        ),
        ({"running": {"mode": "replace"}}, "Input should be 'append' or 'upsert'"),
        ({"groups": "results"}, "results: 'results' is another table's name too"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(tables: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        with_tables(tables)


def test_a_column_is_left_for_the_files() -> None:
    counted = PIPELINE.model_dump()["aggregate"] | {
        "measures": {"bids": "count", "dearest": {"max": "bids.note"}}
    }
    assert with_tables({"groups": {"partition_by": ALL[:2]}}, aggregate=counted)
    with pytest.raises(ValueError, match=r"tables.groups.partition_by: these are all columns of the table"):
        with_tables({"groups": {"partition_by": ALL}}, aggregate=counted)
    with pytest.raises(ValueError, match=r"tables.running.partition_by: these are all columns of the table"):
        with_tables({"running": {"partition_by": [*ALL, "batch"], "mode": "upsert"}}, aggregate=counted)


def test_a_table_that_is_not_written_has_a_name_at_most() -> None:
    """Nobody would notice that it does not come."""
    alone = with_tables({"groups": "totals", "running": "now"}, aggregate=None)
    assert alone.tables.directories["groups"] == "totals"
    with pytest.raises(ValueError, match=r"tables.groups: the pipeline writes no such table; set aggregate,"):
        with_tables({"groups": {"partition_by": "item_id"}}, aggregate=None)
