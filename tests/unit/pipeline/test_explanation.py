"""The plan of a pipeline in words."""

from __future__ import annotations

import json

import pytest

from endmark.operators.stream_join.presets import Preset
from endmark.pipeline.boundedness import states
from endmark.pipeline.explanation import explained
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION
from endmark.types import JoinType
from support.fulfilment import FULFILMENT
from support.verify_world import make_pipeline

EXAMPLES = [path.stem for path in sorted(AUCTION.parent.glob("*.yaml"))]


@pytest.mark.parametrize("example", EXAMPLES)
def test_each_step_state_table_and_topic_stands_in_it_once(example: str) -> None:
    pipeline = load(AUCTION.with_name(f"{example}.yaml"), {"ENDMARK_RELATION_URL": "sqlite://"})
    found = explained(pipeline)

    parts = [read.steps for read in found.reads] + [stage.steps for stage in found.stages]
    steps = [step.step for part in parts for step in part]
    assert sorted(steps) == sorted(pipeline.steps)
    assert sorted(text for stage in found.stages for text in stage.state) == sorted(
        map(str, states(pipeline))
    )
    tables = [output.name for output in found.outputs if output.kind == "table"]
    assert sorted(tables) == sorted(pipeline.outputs.directories.values())
    topics = [output.name for output in found.outputs if output.kind == "topic"]
    assert topics == [published.topic for published in pipeline.publish.values()]
    assert json.loads(json.dumps(found.facts))["pipeline"] == pipeline.name


def test_a_further_key_is_a_further_stage() -> None:
    found = explained(FULFILMENT)
    lines = list(found.lines())

    assert lines[0] == "fulfilment: one query, and 2 shuffles"
    assert lines[2:4] == [
        "  orders: topic orders, json, event time ordered_at",
        "    priced: filter, derive gross",
    ]
    assert [(stage.key, stage.inputs) for stage in found.stages] == [
        (("order_id",), ("orders", "payments", "shipments")),
        (("customers_country",), ("fulfilled",)),
    ]
    assert [[step.step for step in stage.steps] for stage in found.stages] == [
        ["known", "located", "fulfilled"],
        ["by_country"],
    ]


@pytest.mark.parametrize(
    ("preset", "says"),
    [
        (Preset.AUTO, "a row comes once no later result matches it"),
        (Preset.PJOIN, "a row comes for each key that all streams have closed"),
        (Preset.SHJ, "stays empty"),
    ],
)
def test_it_says_when_punctuations_come(preset: Preset, says: str) -> None:
    pipeline = make_pipeline(windows=(None, None), join={"preset": preset}, aggregated=False)
    (found,) = [output for output in explained(pipeline).outputs if output.name == "punctuations"]
    assert found.final == says


def test_outer_rows_come_late() -> None:
    (results,) = [
        output for output in explained(make_pipeline(kind=JoinType.LEFT)).outputs if output.name == "results"
    ]
    assert results.final.endswith("; one without a partner comes when none can come any more")
