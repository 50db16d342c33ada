"""Tables and topics of streams and steps in front of a join: which there may be."""

from __future__ import annotations

import re
from typing import Any

import pytest

from endmark.pipeline import Pipeline
from support.verify_steps import with_steps
from support.verify_world import make_pipeline

PIPELINE = with_steps(
    make_pipeline(others={"ranks": {"stream": "bids"}}, looking={"miss": "nulls"}),
    {"dear": {"from": "bids", "where": "price > 0", "derive": {"twice": "price * 2"}, "drop": ["note"]}},
)


def with_parts(**parts: Any) -> Pipeline:
    document = PIPELINE.model_dump(by_alias=True)
    for part, fields in parts.items():
        document[part] |= fields
    return Pipeline.model_validate(document)


def test_a_table_has_the_columns_behind_its_step() -> None:
    pipeline = with_parts(tables={"raw": {"from": "items"}, "dear": None, "of_ranks": {}})

    assert pipeline.outputs.step_roles == ("step:items", "step:dear", "step:of_ranks")
    coordinates = ["bids_kafka_partition", "bids_kafka_offset"]
    dear = list(pipeline.outputs.columns_of("step:dear"))
    assert dear[-2:] == coordinates
    assert "bids_twice" in dear
    assert "bids_note" not in dear
    ranked = list(pipeline.outputs.columns_of("step:of_ranks"))
    assert ranked == [*dear[:-2], "sellers_name", "sellers_rating", "ranks_rank", *coordinates]


def test_rows_of_steps_are_published_beside_the_results() -> None:
    pipeline = with_parts(publish={"matched": {"topic": "out"}, "dear": {"topic": "dear"}})

    assert pipeline.outputs.topics == {"results": "out", "step:dear": "dear"}
    assert pipeline.outputs.step_roles == ("step:dear",)


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        (
            {"tables": {"raw": {"from": "bids"}}},
            "tables.raw: step dear loses column 'note' of bids before rows come to their table; keep it",
        ),
        (
            {"tables": {"known": {}}},
            "tables.known: lookup of_ranks may lose or repeat rows of known before they come to their",
        ),
        (
            {"tables": {"raw": {"from": "nothing"}}},
            "tables.raw.from: 'nothing' is not one of steps or streams: ",
        ),
        (
            {"tables": {"dear": {"mode": "changes"}}},
            "tables.dear.mode: changes is for the groups of an aggregate",
        ),
        (
            {"tables": {"dear": {}, "again": {"from": "dear"}}},
            "tables.again: dear has the same rows of dear; leave one out",
        ),
        (
            {"publish": {"dear": {"topic": "out", "mode": "changes"}}},
            "publish.dear.mode: changes is for the groups of an aggregate; rows of dear never change",
        ),
        (
            {"publish": {"dear": {"topic": "all.items"}}},
            "publish.dear.topic: 'all.items' is read by a stream, which would get the job's own rows",
        ),
        (
            {"publish": {"dear": {"topic": "out"}, "matched": {"topic": "out"}}},
            "publish.dear.topic: 'out' is named twice, and its rows would have different columns",
        ),
    ],
)
def test_what_cannot_be_is_refused(parts: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        with_parts(**parts)
