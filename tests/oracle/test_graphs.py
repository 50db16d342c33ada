"""Random pipelines of any shape, from Kafka's bytes to tables, against the recomputation of `verify`.

A pipeline has one to five streams, row steps, lookups, a join and groups, as its file may say.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from endmark.operators.stream_join import closed_keys
from endmark.operators.stream_join.presets import PRESETS, Preset, Propagation
from endmark.pipeline import Pipeline
from endmark.pipeline.boundedness import states
from endmark.verify.judge import broken_promises
from support.cases import cases
from support.forgetting import forgetting, without_forgotten_keys
from support.formats import MARK
from support.graph_features import RARELY, Often, pairs
from support.graph_records import graph_records
from support.graph_runs import require_same
from support.graph_world import graphs
from support.random_turns import with_turns
from support.sizes import BUCKETS, MERGING, PARTITIONS
from support.verify_world import TWO_EACH, Record, bid, close, instant, item, make_pipeline, promise
from support.written_tables import laid_out


@cases(5)
@given(data=st.data())
def test_graphs_equal_their_recomputation(data: st.DataObject) -> None:
    """Whatever the batches, the turns of knobs between them, the layout of tables, and the buckets of both
    stages, which are restored before each batch; and no result breaks a punctuation of an earlier batch.
    Published rows are those that a table would have."""
    require_any_same(data, data.draw(graphs()))


@cases(2)
@given(data=st.data())
def test_graphs_with_unions_equal_their_recomputation(data: st.DataObject) -> None:
    """Rows of several streams are those of one, and the other parts of the pipeline do not know the
    difference."""
    require_any_same(data, data.draw(graphs(union=True)))


@cases(2)
@given(data=st.data())
def test_graphs_with_groups_by_time_equal_their_recomputation(data: st.DataObject) -> None:
    """A group by a derived time is final once progress is beyond it and no older row waits."""
    require_any_same(data, data.draw(graphs(timed=True)))


@cases(4)
@given(data=st.data())
def test_graphs_of_pairs_of_features_equal_their_recomputation(data: st.DataObject) -> None:
    """Features that are rare in other graphs meet each other here."""
    often = data.draw(pairs())
    union, timed = (data.draw(st.integers(0, 3)) == 0 for _ in range(2))
    require_any_same(data, data.draw(graphs(union=union, timed=timed, often=often)), often)


def require_any_same(data: st.DataObject, pipeline: Pipeline, often: Often = RARELY) -> None:
    """Assert that all tables of a pipeline equal their recomputation, on random records."""
    pipeline = data.draw(laid_out(pipeline)) if data.draw(st.integers(0, 3)) == 0 else pipeline
    partitions = {stream.topic: data.draw(PARTITIONS) for stream in pipeline.streams.values()}
    records = data.draw(graph_records(pipeline, partitions, often))
    forgets = forgetting(pipeline) if data.draw(st.integers(0, 3)) == 0 else None
    if forgets is not None:
        pipeline, records = forgets, without_forgotten_keys(forgets, records, partitions)
    if data.draw(st.integers(0, 2)) == 0:
        records = data.draw(with_turns(pipeline, records))
    cuts = data.draw(st.sets(st.integers(0, len(records)), max_size=6))
    sizes: dict[str, Any] = {"buckets": data.draw(BUCKETS), "group_buckets": data.draw(BUCKETS)}
    full_batch = data.draw(st.sampled_from([None, 1, 8]))
    with data.draw(MERGING).limits(), ExitStack() as limits:
        if forgets is not None:  # else the place of a promise may be forgotten with its key
            for module in (closed_keys, broken_promises):
                limits.enter_context(patch.object(module, "RECENT", -1))
        found = require_same(pipeline, records, cuts, partitions, full_batch=full_batch, **sizes)
    event(f"results: {bool(found.get('results') or found.get('running') or found.get('groups'))}")
    event(f"groups: {bool(found.get('groups'))}")
    event(f"union: {bool(pipeline.flow.unions)}")


@pytest.mark.parametrize("mode", ["changes", "upsert"])
@pytest.mark.parametrize("by", ["item_id", "items.seller_id"])
def test_a_table_of_groups_so_far_alone(by: str, mode: str) -> None:
    """It has the final rows, too. No blob of final groups is left over, for which there is no table."""
    document = make_pipeline(windows=(None, None), lookup="items", wider=("seller_id",)).model_dump(
        by_alias=True
    )
    document["steps"]["by_key"]["aggregate"] = {"by": by, "measures": {"rows": "count"}}
    document["tables"] = {"running": {"from": "by_key", "mode": mode}}
    records = [item(0, 0), bid(0, 1), item(2, 2, seller=2), close("items", 0), close("bids", 0)]
    records += [promise("items", {"seller_id": {"equals": 1}}, at) for at in range(2)]

    found = require_same(Pipeline.model_validate(document), records, [2], TWO_EACH)

    assert [row["rows"] for row in found["running"] if row["final"]] == [1]


def test_a_measure_of_the_key_of_a_relation_behind_another() -> None:
    """It is the column by which the relation was asked, of another relation."""
    pipeline = make_pipeline(
        windows=(None, None),
        others={"titles": {"stream": "bids", "key": "sellers.name"}},
        measures={"ranks": {"sorted": "titles.rank"}},
    )
    records = [item(0, 0), *(bid(0, 1, seller) for seller in (1, 2)), close("items", 0), close("bids", 0)]

    assert require_same(pipeline, records, [2], TWO_EACH)["groups"] == [
        {"item_id": 0, "ranks": ["Ann", "Bo"]}
    ]


@pytest.mark.parametrize(
    "preset", [name for name, able in PRESETS.items() if able.propagate is Propagation.NEVER]
)
def test_groups_stay_open_if_no_key_is_announced(preset: Preset) -> None:
    """A table has the groups so far, which are never final, though both streams close their keys."""
    document = make_pipeline(windows=(None, None), running=True).model_dump(by_alias=True)
    document["steps"]["matched"]["preset"] = preset
    pipeline = Pipeline.model_validate(document)
    records = [item(0, 0), bid(0, 1), close("items", 0), close("bids", 0)]

    found = require_same(pipeline, records, [2], TWO_EACH)

    assert found["groups"] == []
    assert [row["final"] for row in found["running"]] == [False]
    assert [state.bounded_by for state in states(pipeline) if state.holds == "groups"] == [()]


def test_a_pattern_on_any_text_closes_its_group() -> None:
    """DuckDB has no literal of a text with a character of the number 0, and `verify` stopped at one."""
    texts = ["", "\0", "a\0b", "'a' || chr(0)", "$note"]
    columns = {"note_id": "long", "note": "string", "at": "timestamp"}
    notes = {"topic": "notes", "columns": columns, "event_time": {"column": "at"}}
    aggregates = {by: {"by": by, "measures": {"rows": "count"}} for by in ("note_id", "note")}
    pipeline = Pipeline.model_validate(
        {
            "name": "notes",
            "streams": {"notes": notes | {"punctuated_on": ["note_id", "note"]}},
            "steps": {f"by_{by}": {"from": "notes", "aggregate": each} for by, each in aggregates.items()},
            "tables": {"by_note_id": {}, "by_note": {"mode": "changes"}},
        }
    )
    rows: list[dict[str, Any]] = [
        {"note_id": number, "note": text, "at": instant(0)} for number, text in enumerate([*texts, "a"])
    ]
    patterns: list[dict[str, Any]] = [{"one_of": texts[2:]}, {"between": {"to": "\0"}}]
    values = [*rows, *({MARK: {"note": pattern}} for pattern in patterns)]
    records = [Record("notes", 0, json.dumps(value).encode()) for value in values]

    found = require_same(pipeline, records, [3], {"notes": 1})

    [running] = [groups.running_role for groups in pipeline.groups if groups.step == "by_note"]
    assert {row["notes_note"] for row in found[running] if row["final"]} == {*texts}
