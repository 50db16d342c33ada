"""A row that meets its stream's closing rule acts as a punctuation right behind it would."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.operators.stream_join import closed_keys
from endmark.pipeline import Pipeline
from endmark.state.segment_list import FANOUT, MERGED_ROWS
from endmark.types import JoinType
from support.bucket_tasks import BucketTasks, Tables, total
from support.cases import cases
from support.sizes import SIZES, Merging, Sizes
from support.verify_declared import LAST, is_future
from support.verify_histories import histories, pipelines
from support.verify_keys import COMPOSITE, KEY_KINDS, KeyKind
from support.verify_recompute import recomputed, require_within, sellers_of
from support.verify_world import TWO_EACH, Placed, Record, bid, close, item, locate, make_pipeline

HAND_MADE = Sizes(TWO_EACH, 2, Merging(FANOUT, MERGED_ROWS))
Batches = list[list[Placed]]


def ruled(draw: st.DrawFn, pipeline: Pipeline, keys: KeyKind) -> Pipeline:
    """The pipeline with closing rules on columns that its streams are punctuated on."""
    streams = {}
    for name, stream in pipeline.streams.items():
        fields = stream.model_dump(exclude={"closes"})
        if draw(st.sampled_from([True, True, False])):
            whole = list(keys.types)
            on = draw(st.sampled_from([whole, whole, [whole[0]], ["seller_id"], [whole[-1], "seller_id"]]))
            fields["closes"] = {"on": on, "when": draw(st.sampled_from(list(LAST)))}
            fields["punctuated_on"] = [*whole, "seller_id"]
        streams[name] = fields
    return Pipeline.model_validate(pipeline.model_dump() | {"streams": streams})


def spelled_out(pipeline: Pipeline, record: Record) -> list[Record]:
    """A record, and the punctuation that its stream's closing rule makes of it."""
    stream = next(stream for stream in pipeline.streams.values() if stream.topic == record.topic)
    row = json.loads(record.value or b"null") if record.value != b"{" else None
    if stream.closes is None or not row or "$punctuation" in row or not LAST[stream.closes.when](row):
        return [record]
    if is_future(stream, datetime.fromisoformat(row[stream.event_time.column]), record.timestamp):
        return [record]
    patterns = {name: {"equals": row[name]} for name in stream.closes.on}
    return [record, Record(record.topic, record.partition, json.dumps({"$punctuation": patterns}).encode())]


def without_rules(pipeline: Pipeline) -> Pipeline:
    streams = {name: stream.model_dump(exclude={"closes"}) for name, stream in pipeline.streams.items()}
    return Pipeline.model_validate(pipeline.model_dump() | {"streams": streams})


def in_batches(pipeline: Pipeline, batches: Batches, sizes: Sizes = HAND_MADE) -> Tables:
    with tempfile.TemporaryDirectory() as directory, sizes.merging.limits():
        tasks = BucketTasks(
            pipeline, sellers_of(pipeline), sizes.partitions, Path(directory), buckets=sizes.buckets
        )
        return total(tasks.batch(batch) for batch in [*batches, []])


def shown(tables: Tables, rows_at: dict[tuple[str, int, int], int]) -> dict[str, Counter[str]]:
    """Tables as multisets, with the offsets that rows have where nothing is spelled out."""

    def place(row: dict[str, Any], name: str, topic: str, partition: str) -> None:
        if row.get(name) is not None:
            row[name] = rows_at[topic, row[partition], row[name]]

    found = {}
    for channel, rows in tables.items():
        plain = [dict(row) for row in rows]
        for row in plain:
            if "topic" in row:
                place(row, "offset", row["topic"], "partition")
                place(row, "promise_offset", row["topic"], "promise_partition")
            for stream in ("items", "bids"):
                place(row, f"{stream}_kafka_offset", f"all.{stream}", f"{stream}_kafka_partition")
        found[channel] = Counter(repr(row) for row in plain)
    return found


@cases(5, among=4)
@given(data=st.data(), kind=st.sampled_from(JoinType), keys=st.sampled_from(list(KEY_KINDS.values())))
def test_a_rule_is_punctuations_spelled_out(data: st.DataObject, kind: JoinType, keys: KeyKind) -> None:
    """In all tables, whatever else the pipeline says."""
    pipeline = data.draw(st.composite(ruled)(data.draw(pipelines(kind, keys)), keys))
    sizes = data.draw(SIZES)
    records = data.draw(histories(keys, sizes.partitions, pipeline.streams))
    size = data.draw(st.integers(1, 20))
    groups = [spelled_out(pipeline, record) for record in records]
    rows_at: dict[tuple[str, int, int], int] = {}
    spelled = iter(locate([record for group in groups for record in group]))
    batches: Batches = []
    for at, (topic, partition, offset, *_) in enumerate(locate(records)):
        if at % size == 0:
            batches.append([])
        for one in [next(spelled) for _ in groups[at]]:
            batches[-1].append(one)
            rows_at[topic, partition, one[2]] = offset
    located = locate(records)

    # Punctuations spelled out take offsets, and would be the sooner no longer recent.
    with patch.object(closed_keys, "RECENT", 1_000):
        by_rule = in_batches(
            pipeline, [located[at : at + size] for at in range(0, len(located), size)], sizes
        )
        by_punctuations = in_batches(without_rules(pipeline), batches, sizes)

    same = {place: place[2] for place in ((*one[:2], one[2]) for one in located)}
    found, expected = shown(by_rule, same), shown(by_punctuations, rows_at)
    for table, rows in expected.items():
        assert (found[table] - rows, rows - found[table]) == (Counter(), Counter()), table


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_a_row_counts_before_it_closes(size: int) -> None:
    """It is joined itself; later rows of its partition are violations that say so; a late one closes, too."""
    rule = {"closes": {"on": "item_id", "when": "seller_id = 3"}}
    pipeline = make_pipeline(
        windows=(None, None), lookup="items", punctuated=(False, True), declared=(rule, {})
    )
    rows = [item(0, 5, seller=3), item(0, 6), item(2, 7), item(2, 4, seller=3), item(2, 8), item(4, 9)]
    records = [bid(0, 0), bid(2, 0), *rows, close("bids", 0), close("bids", 2), close("bids", 4)]
    located = locate(records)

    found = in_batches(pipeline, [located[at : at + size] for at in range(0, len(located), size)])

    told = [
        tuple(row[name] for name in ("offset", "reason", "promise_offset")) for row in found["violations"]
    ]
    assert sorted(told) == [(1, "closed", 0), (3, "late", None), (4, "closed", 3)]
    assert sorted(row["item_id"] for row in found["groups"]) == [0, 2]
    with recomputed(pipeline, records, found=found) as session:
        require_within(session, pipeline)


def test_a_part_of_the_key_closes_once_all_partitions_have_said_so() -> None:
    """The rule then acts like a pattern: keys that it matches may live in any partition."""
    rule = {"closes": {"on": "lot", "when": "seller_id = 3"}}
    pipeline = make_pipeline(
        windows=(None, None), lookup="items", keys=COMPOSITE, declared=(rule, {"closes": None})
    )
    one, other = item(0, 1, 3, 0, COMPOSITE), item(2, 2, 3, 1, COMPOSITE)  # of one lot
    sales = [bid(0, 1, partition=0, keys=COMPOSITE), close("bids", 0, 0, COMPOSITE)]

    early, found = (
        in_batches(pipeline, [locate(records)]) for records in ([one, *sales], [one, *sales, other])
    )

    assert early["groups"] == []
    assert [(row["item_id"], row["lot"]) for row in found["groups"]] == [(0, "a")]
    assert '{"items_lot": {"equals": "a"}}' not in {row["punctuation"] for row in early["announced"]}
