"""Row steps behind lookups of a stream: what is left of rows, and the fates of others, against `verify`."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from endmark.metrics import add
from endmark.pipeline import Pipeline
from support.bucket_tasks import BucketTasks, Tables
from support.graph_world import inserted
from support.verify_others import OTHERS
from support.verify_recompute import recomputed, require_within, sellers_of
from support.verify_world import TWO_EACH, Record, bid, close, item, locate, make_pipeline

LARGE = 9_223_372_036_854_775_800


def behind(step: dict[str, Any], lookup: str = "known", **fields: Any) -> Pipeline:
    """Bids with a lookup and the step `picked` behind it, without windows."""
    pipeline = make_pipeline(windows=(None, None), **fields)
    return Pipeline.model_validate(inserted(pipeline.model_dump(), lookup, "picked", step))


def run(pipeline: Pipeline, records: list[Record]) -> tuple[Tables, list[dict[str, Any]]]:
    """The tables of one batch, which `verify` recomputes, and the reports of its tasks."""
    with tempfile.TemporaryDirectory() as directory:
        tasks = BucketTasks(pipeline, sellers_of(pipeline), TWO_EACH, Path(directory), others=OTHERS)
        found = tasks.batch(locate(records))
    with recomputed(pipeline, records, found) as session:
        require_within(session, pipeline)
    return found, tasks.reports


def counted(reports: list[dict[str, Any]], name: str) -> float:
    return add(report["samples"] for report in reports)[name]


def test_a_filtered_row_keeps_its_promises() -> None:
    """The second row of its unique key is a violation, and its own key is closed for groups."""
    pipeline = behind(
        {"where": "sellers.name <> 'Bo'", "derive": {"word": "name || seller_id"}},
        declared=({}, {"unique": "item_id", "punctuated_on": []}),
    )
    found, reports = run(pipeline, [item(0, 0), item(1, 0), bid(0, 1, 2), bid(0, 2, 1), bid(1, 3, 1)])

    assert [(row["bids_item_id"], row["bids_word"]) for row in found["results"]] == [(1, "Ann1")]
    assert [row["reason"] for row in found["violations"]] == ["repeated"]
    assert counted(reports, "filtered_rows_total{step=picked,stream=bids}") == 1


def test_a_lost_column_is_in_violations_alone() -> None:
    """A step loses the column that asked: results do not have it, but a row set aside is whole."""
    document = make_pipeline(windows=(None, None)).model_dump()
    del document["steps"]["by_key"]["aggregate"]["measures"]["seller"]
    step = {"derive": {"seller": "sellers.name"}, "drop": ["bids.seller_id", "rating"]}
    pipeline = Pipeline.model_validate(inserted(document, "known", "picked", step))
    records = [item(0, 0), item(1, 0), bid(0, 1, 1), close("bids", 1), bid(1, 1, 2)]
    found, _ = run(pipeline, records)

    assert [(row["bids_item_id"], row["bids_seller"]) for row in found["results"]] == [(0, "Ann")]
    assert not {"bids_seller_id", "sellers_rating"} & found["results"][0].keys()
    (violation,) = found["violations"]
    assert json.loads(violation["record"])["seller_id"] == 2


def test_a_row_on_which_a_step_fails_is_a_dead_letter() -> None:
    """The dead letter has the bytes of the record. A violation is no dead letter."""
    pipeline = behind({"derive": {"large": f"CASE name WHEN 'Bo' THEN seller_id + {LARGE + 6} END"}})
    records = [item(0, 0), close("bids", 1), bid(0, 1, 2), bid(1, 1, 2), bid(0, 2, 1)]
    found, reports = run(pipeline, records)

    (letter,) = found["dead_letters"]
    assert (letter["reason"], letter["value"]) == ("expression", records[2].value)
    assert letter["error"].startswith("steps.picked.derive.large: it failed")
    told = [failures for report in reports for failures in report.get("failures", [])]
    assert sum(each["count"] for each in told) == 2
    assert all(each["why"].startswith("Out of Range Error") for each in told)
    assert [row["reason"] for row in found["violations"]] == ["closed"]
    assert counted(reports, "dead_letters_total{reason=expression,stream=bids}") == 1
    assert [row["bids_large"] for row in found["results"]] == [None]


def test_a_record_of_several_rows_has_one_fate() -> None:
    """It is a dead letter if a step leaves none of its rows, and an expression fails on one."""
    fails, several = f"seller_id + {LARGE + 7} > 0", {"cardinality": "many_to_many"}
    pipeline = behind(
        {"where": f"CASE name WHEN 'Ann' THEN true WHEN 'Bo' THEN false ELSE {fails} END"}, looking=several
    )
    found, _ = run(pipeline, [item(0, 0), bid(0, 1, 1), bid(0, 2, 2)])

    assert Counter(row["sellers_name"] for row in found["results"]) == {"Ann": 1}
    assert found["dead_letters"] == []

    pipeline = behind({"where": f"CASE name WHEN 'Ann' THEN false ELSE {fails} END"}, looking=several)
    found, _ = run(pipeline, [item(0, 0), bid(0, 1, 1), bid(0, 2, 2)])
    assert found["results"] == []
    assert [row["reason"] for row in found["dead_letters"]] == ["expression", "expression"]


def test_a_derived_column_is_the_key_of_the_next_lookup() -> None:
    """Rows that the step filters are not looked up; a row without a match there has its own fate."""
    others = {"ranks": {"stream": "bids", "miss": "dead_letter"}}
    document = make_pipeline(windows=(None, None), others=others).model_dump()
    document = inserted(
        document, "known", "picked", {"where": "name <> 'Bo'", "derive": {"next": "seller_id + 2"}}
    )
    (step,) = (name for name, step in document["steps"].items() if "ranks" in str(step.get("lookup")))
    document["steps"][step]["lookup"]["key"] = "next"
    document["tables"]["picks"] = {"from": step}
    records = [item(0, 0), *(bid(0, seller, seller) for seller in (1, 2, 3))]
    found, reports = run(Pipeline.model_validate(document), records)

    assert [(row["bids_next"], row["ranks_rank"]) for row in found["results"]] == [(3, None)]
    assert [row["bids_next"] for row in found["step:" + step]] == [3]
    assert counted(reports, "lookup_rows_total{relation=ranks}") == 1
