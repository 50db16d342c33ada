"""Tables of streams, row steps and lookups in front of a join, against the recomputation of `verify`."""

from __future__ import annotations

from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.engine.bucket import lookups
from endmark.pipeline import Pipeline
from endmark.types import JoinType
from support.bucket_tasks import BucketTasks, Tables, pauses, total
from support.cases import cases
from support.random_batches import STEP, in_random_batches
from support.sizes import SIZES
from support.verify_histories import histories, pipelines
from support.verify_keys import KEY_KINDS, KeyKind
from support.verify_others import OTHERS
from support.verify_recompute import recomputed, require_within, sellers_of
from support.verify_steps import with_row_steps, with_steps
from support.verify_world import PARTITIONS, Record, bid, close, item, locate, make_pipeline, raw


def with_tables(pipeline: Pipeline, *sources: str) -> Pipeline:
    """The pipeline with a table of each source."""
    document = pipeline.model_dump(by_alias=True)
    document["tables"] |= {f"of_{source}": {"from": source} for source in sources}
    return Pipeline.model_validate(document)


def with_all_tables(pipeline: Pipeline) -> Pipeline:
    """The pipeline with a table of each stream and step that may have one."""
    for source in [*pipeline.streams, *pipeline.steps]:
        try:
            pipeline = with_tables(pipeline, source)
        except ValueError:
            continue
    return pipeline


@pytest.mark.parametrize("kind", [JoinType.INNER, JoinType.LEFT, None])
@cases(2, among=25)
@given(data=st.data(), keys=st.sampled_from(list(KEY_KINDS.values())))
def test_step_tables_equal_their_recomputation(
    kind: JoinType | None, data: st.DataObject, keys: KeyKind
) -> None:
    """Whatever the row steps, the lookups and the batches, in which rows wait and are parked."""
    drawn = data.draw(pipelines(kind, keys, parking=True, several=True, gaps=True))
    pipeline = with_all_tables(data.draw(with_row_steps(drawn)))
    sizes = data.draw(SIZES)
    records = data.draw(histories(keys, sizes.partitions, pipeline.streams))
    found = total(in_random_batches(data, pipeline, records, sizes))
    with recomputed(pipeline, records, found, sizes.partitions) as session:
        require_within(session, pipeline)


def found_in(pipeline: Pipeline, records: list[Record], size: int, directory: Path) -> Tables:
    """The rows of all tables, which equal their recomputation."""
    clock = count(0, STEP)
    with patch.object(lookups, "_now", clock.__next__):
        tasks = BucketTasks(pipeline, sellers_of(pipeline), PARTITIONS, directory, others=OTHERS)
        located = locate(records)
        batches = [located[at : at + size] for at in range(0, len(located), size)]
        found = total([*map(tasks.batch, batches), *pauses(tasks)])
    with recomputed(pipeline, records, found) as session:
        require_within(session, pipeline)
    return found


@pytest.mark.parametrize("size", [1, 2, 9])
@pytest.mark.parametrize(
    ("miss", "of_bids", "of_known"),
    [
        ("drop", [0, 1, 5], [0, 5]),
        ("nulls", [0, 1, 5], [0, 1, 5]),
        ("dead_letter", [0, 5], [0, 5]),
        ({"park": {"delay": "1s", "attempts": 2, "then": "dead_letter"}}, [0, 5], [0, 5]),
    ],
)
def test_a_table_has_the_processed_rows(
    tmp_path: Path, miss: Any, of_bids: list[int], of_known: list[int], size: int
) -> None:
    """A row that a lookup drops is processed. Violations, dead letters and filtered rows are not."""
    pipeline = with_steps(
        make_pipeline(looking={"miss": miss}, windows=(None, None)),
        {"dear": {"from": "bids", "where": "price > 0", "derive": {"twice": "price * 2"}}},
    )
    pipeline = with_tables(pipeline, "bids", "dear", "known", "items")
    rows = [
        bid(0, 5, 1, 0.1, partition=0),
        bid(2, 6, 4, 0.1, partition=0),  # whose seller is unknown
        bid(0, 7, 1, -3.5, partition=0),
        bid(0, 1, 1, 0.1, partition=0),  # which is late
        raw("bids", b"{", 0),
        bid(0, 8, 2, 0.1, partition=0),
    ]

    found = found_in(pipeline, [item(0, 0), *rows, close("items", 0)], size, tmp_path)

    def offsets(step: str) -> list[int]:
        return sorted(row["bids_kafka_offset"] for row in found[f"step:{step}"])

    assert offsets("bids") == offsets("dear") == of_bids
    assert offsets("known") == of_known
    assert [row["items_item_id"] for row in found["step:items"]] == [0]
    assert {*found["step:dear"][0]} - {*found["step:bids"][0]} == {"bids_twice"}
    assert {*found["step:known"][0]} - {*found["step:dear"][0]} == {"sellers_name", "sellers_rating"}


@pytest.mark.parametrize("size", [1, 9])
def test_a_record_of_several_matches_is_one_row_of_its_stream(tmp_path: Path, size: int) -> None:
    """It has as many rows behind the lookup as there are matches."""
    pipeline = make_pipeline(looking={"cardinality": "many_to_many", "miss": "drop"}, windows=(None, None))
    pipeline = with_tables(pipeline, "bids", "known")
    records = [item(0, 0), bid(0, 1, 1), bid(0, 2, 4), bid(0, 3, 3)]

    found = found_in(pipeline, records, size, tmp_path)

    assert sorted(row["bids_kafka_offset"] for row in found["step:bids"]) == [0, 1, 2]
    assert Counter(row["bids_kafka_offset"] for row in found["step:known"]) == {0: 2, 2: 1}


def test_a_table_of_a_lookup_in_front_of_another(tmp_path: Path) -> None:
    """It has the columns that are known there, of rows that the later lookup keeps in any case."""
    others = {"ranks": {"stream": "bids", "miss": "nulls"}}
    pipeline = with_tables(make_pipeline(others=others, windows=(None, None)), "bids", "known", "of_ranks")
    records = [item(0, 0), *(bid(0, 1 + seller, seller) for seller in (1, 2, 4))]

    found = found_in(pipeline, records, 9, tmp_path)

    assert [row["sellers_name"] for row in found["step:known"]] == ["Ann", "Bo"]
    assert "ranks_rank" not in found["step:known"][0]
    assert [row["ranks_rank"] for row in found["step:of_ranks"]] == ["first", None]


def test_groups_by_another_key_let_rows_of_steps_pass(tmp_path: Path) -> None:
    """Their stage stands between the buckets of the join and the tables."""
    pipeline = make_pipeline(windows=(None, None), lookup="items", wider=("seller_id",))
    document = pipeline.model_dump(by_alias=True)
    document["steps"]["by_key"]["aggregate"] = {"by": "items.seller_id", "measures": {"rows": "count"}}
    pipeline = with_tables(Pipeline.model_validate(document), "items", "known", "bids")

    found = found_in(pipeline, [item(0, 0), bid(0, 1), bid(1, 2)], 2, tmp_path)

    assert [len(found[f"step:{name}"]) for name in ("items", "known", "bids")] == [1, 1, 2]
