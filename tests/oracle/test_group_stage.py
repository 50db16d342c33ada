"""Groups by another key than the join's, batch by batch, against their definition in DuckDB.

A group is final once an announced pattern that restricts columns of the group key alone matches it, or once a
stream has ended that has a row in every result.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.pipeline import Pipeline
from endmark.types import JoinType
from endmark.verify.session import Session
from support.bucket_tasks import BucketTasks, Tables, total
from support.cases import cases
from support.defined_groups import Definition, result_name, rows_of
from support.promised_sellers import promised_sellers
from support.random_batches import batches_of, random_tasks
from support.sizes import BUCKETS, SIZES, Sizes
from support.verify_histories import histories, pipelines
from support.verify_keys import COMPOSITE, LONG, KeyKind
from support.verify_recompute import recomputed, require_within, sellers_of
from support.verify_world import Record, bid, item, locate, make_pipeline, promise

Row = dict[str, Any]


@st.composite
def grouped(draw: st.DrawFn, kind: JoinType | None, keys: KeyKind) -> Pipeline:
    """A pipeline with groups of its results by other columns than the join key."""
    pipeline = draw(pipelines(kind, keys, several=True, gaps=True))
    shown = pipeline.shown
    columns = [f"{stream}.{column}" for stream in shown for column in ("seller_id", *pipeline.key)]
    columns += pipeline.key if pipeline.join is not None else ()
    if "sellers" in pipeline.relations and pipeline.stream_of("sellers") in shown:
        columns += ["sellers.name", "sellers.seller_id"]
    by = draw(
        st.lists(
            st.sampled_from(columns), min_size=1, max_size=2, unique_by=partial(result_name, pipeline)
        ).filter(lambda by: regroups(pipeline, by))
    )
    measures = {} if not pipeline.groups else pipeline.groups[0].aggregate.model_dump()["measures"]
    return regrouped(pipeline, by, measures or {"rows": "count"})


def regroups(pipeline: Pipeline, by: list[str]) -> bool:
    """Return whether these columns are another key. A stream alone has its own columns in `by` as its key."""
    key = pipeline.key
    if pipeline.join is None:
        if all(name.partition(".")[0] in pipeline.streams for name in by):
            return False
        key = regrouped(pipeline, ["sellers.name"], {"rows": "count"}).key
    return not {each.rpartition(".")[2] for each in by} >= set(key)


def regrouped(pipeline: Pipeline, by: list[str], measures: Mapping[str, Any]) -> Pipeline:
    """The pipeline with other groups."""
    document: dict[str, Any] = pipeline.model_dump()
    document["steps"] = {
        name: step for name, step in document["steps"].items() if name not in pipeline.flow.groups
    } | {"by_other": {"from": pipeline.flow.results, "aggregate": {"by": by, "measures": measures}}}
    document["tables"] = {
        "results": {"from": pipeline.flow.results},
        "groups": {"from": "by_other"},
        "running": {"from": "by_other", "mode": "changes"},
    }
    return Pipeline.model_validate(document)


def hold(data: st.DataObject, pipeline: Pipeline, records: list[Record], sizes: Sizes) -> None:
    """Assert that groups are those of the definition after each batch, and those of `verify` in the end."""
    came: list[Tables] = []
    with (
        random_tasks(data, pipeline, sizes, group_buckets=data.draw(BUCKETS)) as (tasks, size),
        Session() as session,
    ):
        session.run("SET threads = 1")
        definition = Definition.of_results(session, pipeline)
        for number, batch in enumerate([*batches_of(records, size), []], 1):
            came.append(found := tasks.batch(batch))
            told = [{column: row[column] for column in row if column != "batch"} for row in found["running"]]
            groups, running = definition.batch(number, found, tasks.patterns)
            assert rows_of(found["groups"]) == groups
            assert rows_of(told) == running
    with recomputed(pipeline, records, total(came), sizes.partitions) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize("kind", [*JoinType, None])
@cases(2, among=40)
@given(data=st.data(), keys=st.sampled_from([LONG, COMPOSITE]))
def test_groups_by_another_key(kind: JoinType | None, data: st.DataObject, keys: KeyKind) -> None:
    """Whatever the join, the columns of the key, the batches and the buckets of each stage."""
    pipeline = data.draw(grouped(kind, keys))
    sizes = data.draw(SIZES)
    hold(data, pipeline, data.draw(histories(keys, sizes.partitions, pipeline.streams)), sizes)


@pytest.mark.parametrize("kind", JoinType)
@cases(4, among=20)
@given(data=st.data())
def test_promised_groups(kind: JoinType, data: st.DataObject) -> None:
    """Groups are final when no bucket has an open row of a promised seller."""
    columns = ["items.seller_id", "sellers.name"]
    if kind is not JoinType.SEMI:
        columns.append("bids.seller_id")
    by = data.draw(st.lists(st.sampled_from(columns), min_size=1, max_size=2, unique=True))
    looking = {"miss": "nulls"}
    pipeline = make_pipeline(
        windows=(None, None), wider=("seller_id",), kind=kind, lookup="items", looking=looking
    )
    sizes = data.draw(SIZES)
    records = data.draw(promised_sellers(sizes.partitions))
    hold(data, regrouped(pipeline, by, {"rows": "count"}), records, sizes)


def test_promised_groups_end_with_their_stream(tmp_path: Path) -> None:
    """All values of several key columns are the end of a stream, as are those of the first one."""
    plain = make_pipeline(keys=COMPOSITE, windows=(None, None), punctuated=(True, True), aggregated=False)
    pipeline = regrouped(plain, ["bids.seller_id"], {"rows": "count"})
    records = [item(1, 0, partition=0, keys=COMPOSITE), bid(1, 1, partition=0, keys=COMPOSITE)]
    both: dict[str, Any] = {"item_id": {"between": {}}, "lot": {"between": {}}}
    ends = [promise("bids", both, partition) for partition in range(2)]
    ends += [promise("items", {"item_id": {"between": {}}}, 0), promise("items", both, 1)]
    partitions = {"all.items": 2, "all.bids": 2}
    tasks = BucketTasks(pipeline, sellers_of(pipeline), partitions, tmp_path, buckets=2, group_buckets=2)
    located = locate([*records, *ends])

    first, second = tasks.batch(located[: len(records)]), tasks.batch(located[len(records) :])

    announced = {row["punctuation"] for row in tasks.patterns}
    assert '{"items_item_id": {"between": {}}, "items_lot": {"between": {}}}' in announced
    assert (first["groups"], [row["rows"] for row in second["groups"]]) == ([], [1])
    with recomputed(pipeline, [*records, *ends], total([first, second]), partitions) as session:
        require_within(session, pipeline)
