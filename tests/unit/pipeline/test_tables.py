"""The tables of a pipeline: their names, how they are written, and which layouts are refused."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import pytest

from endmark.pipeline import Pipeline
from support.verify_world import make_pipeline

MEASURES = {"bids": "count", "prices": {"sorted": "bids.price"}, "dearest": {"max": "bids.note"}}
PIPELINE = make_pipeline(running=True, measures=MEASURES)
ALL = ["item_id", "bids", "dearest"]


def with_tables(tables: dict[str, Any], measures: dict[str, Any] | None = None) -> Pipeline:
    document = deepcopy(PIPELINE.model_dump())
    if measures is not None:
        document["steps"]["by_key"]["aggregate"]["measures"] = measures
    for name, fields in tables.items():
        document["tables"][name] |= fields
    return Pipeline.model_validate(document)


def test_a_table_has_the_rows_of_the_step_of_its_name() -> None:
    document = PIPELINE.model_dump()
    document["tables"] = {"matched": None, "by_key": {}, "now": {"from": "by_key", "mode": "upsert"}}
    found = Pipeline.model_validate(document).outputs.directories

    assert found | {"results": "matched", "groups:by_key": "by_key", "running:by_key": "now"} == found
    document["tables"] = {"by_key": {}}
    assert list(Pipeline.model_validate(document).outputs.directories) == [
        *("groups:by_key", "dead_letters", "violations", "punctuations")
    ]


def test_running_groups_are_upserted_by_partition() -> None:
    """A batch rewrites no file of final groups."""
    running = with_tables({"running": {"mode": "upsert", "partition_by": "dearest"}}).outputs.tables_by_role[
        "running:by_key"
    ]
    assert running.partition_columns == ("dearest", "final")
    running = with_tables({"running": {"partition_by": "dearest"}}).outputs.tables_by_role["running:by_key"]
    assert running.partition_columns == ("dearest",)


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
            "tables.running.cluster_by: leave it out, or choose mode: changes, whose files can be sorted",
        ),
        (
            {"running": {"mode": "append"}},
            "tables.running: groups has the same rows of by_key; leave one out",
        ),
        (
            {"groups": {"mode": "upsert"}},
            "tables.running: groups has the groups of by_key so far, too, by mode: upsert; leave",
        ),
    ],
)
def test_a_layout_that_cannot_be_is_refused(tables: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        with_tables(tables)


def test_a_column_is_left_for_the_files() -> None:
    counted = {"bids": "count", "dearest": {"max": "bids.note"}}
    assert with_tables({"groups": {"partition_by": ALL[:2]}}, counted)
    with pytest.raises(ValueError, match=r"tables.groups.partition_by: these are all columns of the table"):
        with_tables({"groups": {"partition_by": ALL}}, counted)
    with pytest.raises(ValueError, match=r"tables.running.partition_by: these are all columns of the table"):
        with_tables({"running": {"partition_by": [*ALL, "batch"], "mode": "upsert"}}, counted)
