"""Groups of final groups, batch by batch, against their definition in DuckDB.

A group of final groups is final once an announced pattern that restricts columns of its key alone matches it,
or once a stream has ended that has a row in every result.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from endmark.pipeline import Pipeline
from endmark.types import JoinType
from endmark.verify.session import Session
from support import unions
from support.bucket_tasks import BucketTasks, Tables, total
from support.cases import cases
from support.defined_groups import Definition, rows_of
from support.promised_sellers import promised_sellers
from support.random_batches import batches_of, random_tasks
from support.sizes import BUCKETS, SIZES, Sizes
from support.verify_histories import histories
from support.verify_keys import COMPOSITE, LONG, KeyKind
from support.verify_recompute import recomputed, require_within, sellers_of
from support.verify_world import (
    TWO_EACH,
    Record,
    bid,
    close,
    instant,
    item,
    locate,
    make_pipeline,
    promise,
)


def rolled_up(
    pipeline: Pipeline, by: list[str], groups: list[str], measures: dict[str, Any], *, beside: bool = False
) -> Pipeline:
    """The pipeline with groups of groups: the columns `by` of groups by the columns `groups`.

    If `beside`, another aggregate takes the results, too, and groups them by another key than the join's.
    """
    document: dict[str, Any] = pipeline.model_dump(by_alias=True)
    first: dict[str, Any] = {"rows": "count", "top": {"max": "items.seller_id"}}
    if pipeline.join is not None and pipeline.join.type is not JoinType.SEMI:
        first["tips"] = {"sum": "bids.tip"}
    counted = {"by": groups, "measures": first}
    for step in pipeline.flow.groups:
        document["steps"].pop(step)
    document["steps"] |= {
        "grouped": {"from": pipeline.flow.results, "aggregate": counted},
        "totals": {"from": "grouped", "aggregate": {"by": by, "measures": measures}},
    }
    document["tables"] = {
        "groups": {"from": "grouped"},
        "totals": {},
        "totals_so_far": {"from": "totals", "mode": "changes"},
    }
    if beside:
        other = {"by": "items.seller_id", "measures": {"rows": "count"}}
        document["steps"]["by_seller"] = {"from": pipeline.flow.results, "aggregate": other}
        document["tables"]["by_seller"] = {"mode": "changes"}
    return Pipeline.model_validate(document)


@st.composite
def measures(draw: st.DrawFn, kind: JoinType) -> dict[str, Any]:
    """Measures of groups, of which each has `rows` and `top`, and `tips` unless a semi join hides them."""
    columns = ["rows", "top", *([] if kind is JoinType.SEMI else ["tips"])]
    functions = ["sum", "min", "max", "avg", "count_distinct", "sorted"]
    found: dict[str, Any] = {"groups": "count"}
    for number in range(draw(st.integers(0, 3))):
        found[f"m{number}"] = {draw(st.sampled_from(functions)): draw(st.sampled_from(columns))}
    return found


def hold(data: st.DataObject, pipeline: Pipeline, records: list[Record], sizes: Sizes) -> None:
    """Assert that groups of groups are those of the definition after each batch, and those of `verify`."""
    came: list[Tables] = []
    with (
        random_tasks(data, pipeline, sizes, group_buckets=data.draw(BUCKETS)) as (tasks, size),
        Session() as session,
    ):
        session.run("SET threads = 1")
        definition = Definition.of_groups(session, pipeline)
        for number, batch in enumerate([*batches_of(records, size), []], 1):
            came.append(found := tasks.batch(batch))
            changed = found["running:totals"]
            told = [{column: row[column] for column in row if column != "batch"} for row in changed]
            final, running = definition.batch(number, found, tasks.patterns)
            assert rows_of(found["groups:totals"]) == final
            assert rows_of(told) == running
    tables = total(came)
    event(f"groups of groups: {bool(tables['running:totals'])}, final: {bool(tables['groups:totals'])}")
    with recomputed(pipeline, records, tables, sizes.partitions) as session:
        require_within(session, pipeline)


def test_groups_of_groups_without_a_table_of_the_first_ones(tmp_path: Path) -> None:
    """Two items of one lot, of which one has two bids and the other one."""
    plain = make_pipeline(windows=(None, None), punctuated=(True, True), aggregated=False)
    pipeline = rolled_up(plain, ["rows"], ["item_id"], {"groups": "count", "sum": {"sum": "top"}})
    document = pipeline.model_dump(by_alias=True)
    document["tables"] = {"totals": {"mode": "upsert"}}
    pipeline = Pipeline.model_validate(document)
    records = [*(item(key, 0, seller=key) for key in (1, 2, 3)), *(bid(key, 1) for key in (1, 1, 2, 3))]
    records += [close(stream, key) for key in (1, 2, 3) for stream in ("items", "bids")]
    tasks = BucketTasks(pipeline, sellers_of(pipeline), TWO_EACH, tmp_path)

    found = tasks.batch(locate(records))

    assert "groups:grouped" not in found
    rows = [(row["rows"], row["groups"], row["sum"], row["final"]) for row in found["running:totals"]]
    assert sorted(rows) == [(1, 2, 5, False), (2, 1, 1, False)]
    with recomputed(pipeline, records, found) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize("beside", [False, True])
def test_a_promised_column_of_the_join_key_closes_groups_of_groups(tmp_path: Path, *, beside: bool) -> None:
    """Lot a has two items, and all partitions of a stream promise it; lot b stays open."""
    plain = make_pipeline(keys=COMPOSITE, windows=(None, None), punctuated=(True, True), aggregated=False)
    counted = {"groups": "count", "rows": {"sum": "rows"}}
    pipeline = rolled_up(plain, ["lot"], ["item_id", "lot"], counted, beside=beside)
    records = [item(key, 0, keys=COMPOSITE) for key in (0, 1, 2)]
    records += [bid(key, 1, keys=COMPOSITE) for key in (0, 0, 1, 2)]
    records += [
        promise(stream, {"lot": {"equals": "a"}}, partition)
        for stream in ("items", "bids")
        for partition in range(2)
    ]
    tasks = BucketTasks(pipeline, sellers_of(pipeline), TWO_EACH, tmp_path, buckets=2, group_buckets=2)

    found = tasks.batch(locate(records))

    assert sorted(row["item_id"] for row in found["groups:grouped"]) == [0, 1]
    assert found["groups:totals"] == [{"lot": "a", "groups": 2, "rows": 3}]
    with recomputed(pipeline, records, found) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize("kind", [JoinType.INNER, JoinType.LEFT, JoinType.SEMI])
@cases(3, among=40)
@given(data=st.data(), keys=st.sampled_from([LONG, COMPOSITE]))
def test_groups_of_groups_by_the_key(kind: JoinType, data: st.DataObject, keys: KeyKind) -> None:
    """Their key has some columns of the join key, or measures."""
    plain = make_pipeline(
        keys=keys, kind=kind, windows=(None, None), punctuated=(True, True), aggregated=False
    )
    able = [*plain.key, "rows", "top"]
    drawn = st.lists(st.sampled_from(able), min_size=1, max_size=2, unique=True)
    by = data.draw(drawn.filter(lambda by: not set(by) >= set(plain.key)))
    pipeline = rolled_up(
        plain, by, list(plain.key), data.draw(measures(kind)), beside=data.draw(st.booleans())
    )
    sizes = data.draw(SIZES)
    hold(data, pipeline, data.draw(histories(keys, sizes.partitions, pipeline.streams)), sizes)


@pytest.mark.parametrize("kind", [JoinType.INNER, JoinType.LEFT, JoinType.SEMI])
@cases(3, among=40)
@given(data=st.data())
def test_groups_of_groups_by_another_key(kind: JoinType, data: st.DataObject) -> None:
    """They are final once no bucket of the join has an open row of a promised seller."""
    plain = make_pipeline(
        windows=(None, None), wider=("seller_id",), kind=kind, lookup="items", looking={"miss": "nulls"}
    )
    by = data.draw(
        st.lists(
            st.sampled_from(["items_seller_id", "items_seller_id", "sellers_name", "rows"]),
            min_size=1,
            max_size=2,
            unique=True,
        ).filter(lambda by: set(by) != {"items_seller_id", "sellers_name"})
    )
    groups = ["items.seller_id", "sellers.name"]
    pipeline = rolled_up(plain, by, groups, data.draw(measures(kind)))
    sizes = data.draw(SIZES)
    hold(data, pipeline, data.draw(promised_sellers(sizes.partitions)), sizes)


def test_a_derived_time_closes_groups_of_groups_beside_groups_by_another_key(tmp_path: Path) -> None:
    """The sellers of each second are counted once the second is over, whatever else groups the rows."""
    pipeline = Pipeline.model_validate(
        {
            "name": "timed",
            "streams": {
                "orders": {
                    "topic": "orders",
                    "columns": {"seller": "long", "lot": "long", "moment": "timestamp"},
                    "event_time": {"column": "moment"},
                }
            },
            "steps": {
                "timed": {"from": "orders", "derive": {"second": "date_trunc('second', moment)"}},
                "by_seller": {
                    "from": "timed",
                    "aggregate": {"by": ["second", "seller"], "measures": {"rows": "count"}},
                },
                "by_second": {
                    "from": "by_seller",
                    "aggregate": {"by": "second", "measures": {"sellers": "count"}},
                },
                "by_lot": {"from": "timed", "aggregate": {"by": "lot", "measures": {"rows": "count"}}},
            },
            "tables": {"by_second": {}, "by_lot": {"mode": "changes"}},
        }
    )
    came = [(1, 0), (1, 0.5), (2, 0.5), (3, 1), (1, 2)]
    rows = [{"seller": seller, "lot": 1, "moment": instant(seconds)} for seller, seconds in came]
    records = [Record("orders", 0, json.dumps(row).encode()) for row in rows]
    partitions = {"orders": 1}
    tasks = BucketTasks(pipeline, [], partitions, tmp_path, buckets=2, group_buckets=2)

    found = tasks.batch(locate(records))

    assert sorted(row["sellers"] for row in found["groups:by_second"]) == [1, 2]
    with recomputed(pipeline, records, found, partitions) as session:
        require_within(session, pipeline)


def test_verify_is_sure_of_groups_of_groups_beside_groups_by_time() -> None:
    """Batches decide which patterns on the time are announced, and none of them concerns these groups."""
    document = unions.document()
    document["steps"] |= {
        "timed": {"from": "payments", "derive": {"second": "date_trunc('second', moment)"}},
        "paid": {"join": ["orders", "timed"], "on": "order_id", "window": "1h"},
        "by_second": {"from": "paid", "aggregate": {"by": "payments.second", "measures": {"n": "count"}}},
        "habits": {"from": "by_order", "aggregate": {"by": "rows", "measures": {"keys": "count"}}},
    }
    document["tables"] |= {"by_second": {}, "habits": {"mode": "upsert"}}
    records = [unions.order(stream, 1) for stream in ("web", "payments", "payments")]
    records += [unions.closes(stream, 1) for stream in ("web", "stores", "payments")]
    records.append(unions.order("payments", 2, seconds=10))
    early = {"punctuation": json.dumps({"payments_second": {"between": {"to": "2000-01-01T00:00:00Z"}}})}

    with recomputed(
        Pipeline.model_validate(document), records, {"announced": [early]}, unions.TOPICS
    ) as session:
        assert session.count("uncertain_punctuations") > 0
        [row] = session.run('SELECT rows, keys FROM "expected_running:habits"')
        assert row == {"rows": 2, "keys": 1}
