"""Groups by another key than the join's, batch by batch, against their definition in DuckDB.

A group is final once an announced pattern that restricts columns of the group key alone matches it, or once a
stream has ended that has a row in every result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.pipeline import Pipeline
from endmark.types import JoinType
from endmark.verify.measures import expression
from endmark.verify.session import Session, name, names, text
from support.bucket_tasks import BucketTasks, Tables, total
from support.cases import cases
from support.hashable_rows import hashable_row
from support.random_batches import batches_of, random_tasks
from support.sizes import BUCKETS, SIZES, Sizes
from support.verify_histories import histories, pipelines
from support.verify_keys import COMPOSITE, LONG, KeyKind
from support.verify_places import schema_of
from support.verify_recompute import recomputed, require_within, sellers_of
from support.verify_world import Record, bid, close, item, locate, make_pipeline, promise

Row = dict[str, Any]


def present(pipeline: Pipeline) -> list[str]:
    """The streams that have a row in every result."""
    if pipeline.join is None:
        return list(pipeline.sides)
    return {
        JoinType.INNER: ["items", "bids"],
        JoinType.LEFT: ["items"],
        JoinType.RIGHT: ["bids"],
        JoinType.FULL: [],
        JoinType.SEMI: ["items"],
    }[pipeline.join.type]


class Definition:
    """All results and announced patterns so far, in DuckDB."""

    def __init__(self, session: Session, pipeline: Pipeline) -> None:
        aggregate = pipeline.aggregate
        assert aggregate is not None
        self._session = session
        self._pipeline = pipeline
        self._schema = schema_of(pipeline, "results")
        none = self._schema.empty_table()
        session.run_on(none, "CREATE TABLE results AS SELECT *, 0 AS came FROM arriving")
        self.columns = {_result_name(pipeline, each): self._value(each) for each in aggregate.by}
        self._measures = [
            f"{expression(pipeline, measure)} AS {name(column)}"
            for column, measure in aggregate.measures.items()
        ]
        self._final: list[str] = []

    def _value(self, reference: str) -> str:
        """The SQL of a column of the group key."""
        if "." in reference:
            return name(_result_name(self._pipeline, reference))
        return f"coalesce({names([f'{stream}_{reference}' for stream in self._pipeline.shown])})"

    def batch(self, number: int, found: Tables, patterns: list[Row]) -> dict[str, set[tuple[Any, ...]]]:
        """The rows of both tables that a batch must add, given its results and the patterns it announced."""
        rows = pa.Table.from_pylist(found["results"], self._schema)
        self._session.run_on(rows, "INSERT INTO results SELECT *, $number FROM arriving", number=str(number))
        before = " OR ".join(self._final) or "false"
        self._final += [sql for row in patterns if (sql := self._closing(row["punctuation"]))]
        now = " OR ".join(self._final) or "false"
        told = self._session.run(
            "SELECT * EXCLUDE (came), $now AS final FROM ("
            "SELECT $by, $measures, max(came) AS came FROM results GROUP BY $of"
            ") WHERE NOT coalesce($before, false) AND (came = $number OR coalesce($now, false))",
            by=", ".join(f"{value} AS {name(column)}" for column, value in self.columns.items()),
            of=", ".join(self.columns.values()),
            measures=", ".join(self._measures),
            now=f"coalesce({now}, false)",
            before=before,
            number=str(number),
        )
        late = self._session.run(
            "SELECT count(*) AS n FROM (SELECT $by, came FROM results) WHERE came = $number AND ($before)",
            by=", ".join(f"{value} AS {name(column)}" for column, value in self.columns.items()),
            number=str(number),
            before=before,
        )
        assert late[0]["n"] == 0, "a result of a final group"
        groups = [dict(list(row.items())[:-1]) for row in told if row["final"]]
        return {"groups": _rows(groups), "running": _rows(told)}

    def _closing(self, written: str) -> str | None:
        """The condition on groups that a pattern makes final; `None` if it makes none final."""
        # A column of the join key is never null in a stream that is there, so all of its values are all rows.
        whole = {f"{stream}_{column}" for stream in present(self._pipeline) for column in self._pipeline.key}
        patterns = {
            column: pattern
            for column, pattern in json.loads(written).items()
            if not (column in whole and pattern == {"between": {}})
        }
        conditions = []
        for column, pattern in patterns.items():
            group = self._group_column(column)
            if group is None:
                return None
            conditions.append(_condition(name(group), pattern))
        return " AND ".join(conditions) or "true"

    def _group_column(self, column: str) -> str | None:
        """The column of the group key that is equal to a column of results."""
        if column in self.columns:
            return column
        stream, _, rest = column.partition("_")
        if rest not in self._pipeline.key or stream not in present(self._pipeline):
            return None
        same = [f"{other}_{rest}" for other in present(self._pipeline)]
        return next((found for found in [rest, *same] if found in self.columns), None)


def _condition(column: str, pattern: dict[str, Any]) -> str:
    ((kind, value),) = pattern.items()
    if kind == "between":
        signs = {"from": ">=", "from_open": ">", "to": "<=", "to_open": "<"}
        bounds = [
            f"{column} {signs[f'{end}_open' if value.get(f'{end}_open') else end]} {text(str(value[end]))}"
            for end in ("from", "to")
            if end in value
        ]
        return f"({' AND '.join([f'{column} IS NOT NULL', *bounds])})"
    listed = [value] if kind == "equals" else value
    return f"{column} IN ({', '.join(text(str(each)) for each in listed)})"


def _rows(rows: list[Row]) -> set[tuple[Any, ...]]:
    counted = [hashable_row(row.values()) for row in rows]
    assert len(set(counted)) == len(counted)
    return set(counted)


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
            st.sampled_from(columns), min_size=1, max_size=2, unique_by=partial(_result_name, pipeline)
        ).filter(lambda by: regroups(pipeline, by))
    )
    measures = {} if pipeline.aggregate is None else pipeline.aggregate.model_dump()["measures"]
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
        name: step for name, step in document["steps"].items() if name != pipeline.flow.aggregate
    } | {"by_other": {"from": pipeline.flow.results, "aggregate": {"by": by, "measures": measures}}}
    document["tables"] = {
        "results": {"from": pipeline.flow.results},
        "groups": {"from": "by_other"},
        "running": {"from": "by_other", "mode": "changes"},
    }
    return Pipeline.model_validate(document)


def _result_name(pipeline: Pipeline, reference: str) -> str:
    if reference == "sellers.seller_id":
        return f"{pipeline.stream_of('sellers')}_seller_id"
    return reference.replace(".", "_")


def hold(data: st.DataObject, pipeline: Pipeline, records: list[Record], sizes: Sizes) -> None:
    """Assert that groups are those of the definition after each batch, and those of `verify` in the end."""
    came: list[Tables] = []
    with (
        random_tasks(data, pipeline, sizes, group_buckets=data.draw(BUCKETS)) as (tasks, size),
        Session() as session,
    ):
        session.run("SET threads = 1")
        definition = Definition(session, pipeline)
        for number, batch in enumerate([*batches_of(records, size), []], 1):
            came.append(found := tasks.batch(batch))
            told = [{column: row[column] for column in row if column != "batch"} for row in found["running"]]
            expected = definition.batch(number, found, tasks.patterns)
            assert _rows(found["groups"]) == expected["groups"]
            assert _rows(told) == expected["running"]
    with recomputed(pipeline, records, total(came), sizes.partitions) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize("kind", [*JoinType, None])
@cases(4, among=40)
@given(data=st.data(), keys=st.sampled_from([LONG, COMPOSITE]))
def test_groups_by_another_key(kind: JoinType | None, data: st.DataObject, keys: KeyKind) -> None:
    """Whatever the join, the columns of the key, the batches and the buckets of each stage."""
    pipeline = data.draw(grouped(kind, keys))
    sizes = data.draw(SIZES)
    hold(data, pipeline, data.draw(histories(keys, sizes.partitions, pipeline.streams)), sizes)


@st.composite
def promised(draw: st.DrawFn, partitions: Mapping[str, int]) -> list[Record]:
    """Auctions of three sellers, who are promised in all partitions, mostly while some of theirs are open."""
    records: list[Record] = []
    for second in range(draw(st.integers(5, 30))):
        key, seller = draw(st.integers(0, 5)), draw(st.integers(1, 3))
        match draw(st.sampled_from(["item", "item", "bid", "bid", "bid", "over", "promise", "end"])):
            case "item":
                home = LONG.home(key, partitions["all.items"])
                records.append(item(key, second, seller, home))
            case "bid":
                home = LONG.home(key, partitions["all.bids"])
                records.append(bid(key, second, draw(st.sampled_from([1, 2, 9])), partition=home))
            case "over":
                records.append(close("bids", key, LONG.home(key, partitions["all.bids"])))
            case kind:
                anything = kind == "end" and draw(st.integers(0, 3)) == 0
                pattern = {"anything": True} if anything else {"equals": seller}
                stream = draw(st.sampled_from(["items", "items", "bids"]))
                records += [
                    promise(stream, {"seller_id": pattern}, home)
                    for home in range(partitions[f"all.{stream}"])
                ]
    return records


@pytest.mark.parametrize("kind", JoinType)
@cases(7, among=20)
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
    records = data.draw(promised(sizes.partitions))
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
