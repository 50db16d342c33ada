"""The entry by which another pipeline reads what one publishes: it is sound, and loses no row."""

from __future__ import annotations

import json
import re
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from endmark.errors import ConfigError
from endmark.operators.stream_join.presets import Preset
from endmark.pipeline import Pipeline
from endmark.pipeline.chain import FOR_EVER, ChainedStream, chained
from endmark.punctuation.scalars import scalar_of
from support.bucket_tasks import BucketTasks, Located
from support.cases import cases
from support.fulfilment import FULFILMENT
from support.two_stages import two_stages
from support.verify_world import STAMPED, instant

PAGE = Path(__file__).parents[3] / "docs/semantics/repeats.md"
HOUR = timedelta(hours=1)
LEFT, RIGHT = "orders", "payments"


def shop(
    windows: tuple[int | None, int | None] = (5, 5), lateness: tuple[int, int] = (0, 0), **join: Any
) -> Pipeline:
    """Orders with their payments, which are published."""
    columns = {"order_id": "long", "note": "string?", "at": "timestamp"}
    streams = {
        name: {
            "topic": name,
            "columns": columns,
            "event_time": {"column": "at", "lateness": late, "ahead": None},
            "punctuated_on": ["order_id"],
        }
        for name, late in zip((LEFT, RIGHT), lateness, strict=True)
    }
    matched = {
        "join": [LEFT, RIGHT],
        "on": "order_id",
        "window": dict(zip((LEFT, RIGHT), windows, strict=True)),
    }
    return Pipeline.model_validate(
        {
            "name": "shop",
            "streams": streams,
            "steps": {"matched": matched | join},
            "tables": {"matched": {}},
            "publish": {"matched": {"topic": "matched"}},
        }
    )


def reader(found: ChainedStream) -> Pipeline:
    """A pipeline of the chained stream alone."""
    return Pipeline.model_validate({"name": "reader", "streams": found.entry, "tables": {found.name: {}}})


@pytest.mark.parametrize("pipeline", [FULFILMENT, shop(), shop(preset=Preset.SHJ, window=None)])
def test_the_entry_is_sound(pipeline: Pipeline) -> None:
    """The entry is printed as JSON, or as YAML with remarks."""
    found = chained(pipeline, None, HOUR)

    assert yaml.safe_load("\n".join(found.lines())) == {"streams": found.entry}
    read = reader(found).streams[found.name]
    assert list(read.columns) == list(pipeline.result_columns())
    assert read.event_time.lateness == found.lateness


def test_columns_may_be_null_where_results_have_nulls() -> None:
    inner, left, right = (chained(shop(type=kind), None, HOUR).columns for kind in ("inner", "left", "right"))
    names = ("orders_order_id", "orders_note", "payments_order_id", "payments_at", "payments_kafka_offset")

    assert [inner[name].nullable for name in names] == [False, True, False, False, False]
    assert [left[name].nullable for name in names] == [False, True, True, True, True]
    assert [right[name].nullable for name in names] == [True, True, False, False, False]
    of_relations = chained(FULFILMENT, None, HOUR).columns
    assert of_relations["customers_country"].nullable
    assert of_relations["orders_gross"].nullable  # it is derived
    assert not of_relations["orders_total"].nullable


def test_punctuations_on_columns_with_nulls_are_not_declared() -> None:
    """A stream cannot declare them, so they are dead letters, which must not stop the job that reads them."""
    found = chained(shop(type="left"), None, HOUR)

    assert (found.punctuated_on, found.skipped_on) == (("orders_order_id",), ("payments_order_id",))
    assert found.entry["matched"]["quarantine"] == "off"
    assert reader(found)
    assert yaml.safe_load("\n".join(found.lines())) == {"streams": found.entry}


def test_punctuations_of_a_further_stage_are_declared() -> None:
    """Its join announces the promises of the first join, too, and they must be no errors to the reader."""
    promised = {"orders": ["order_id", "customer_id"], "payments": ["payer_id"], "tickets": ["customer_id"]}
    of_both = ("orders_customer_id", "tickets_customer_id")
    of_first = ("orders_order_id", "payments_order_id", "payments_payer_id")

    inner, left = (
        chained(
            two_stages(promised=promised, paid={"type": kind}, publish={"served": {"topic": "served"}}),
            None,
            HOUR,
        )
        for kind in ("inner", "left")
    )

    assert (inner.punctuated_on, inner.skipped_on) == ((*of_both, *of_first), ())
    assert (left.punctuated_on, left.skipped_on) == ((*of_both, *of_first[:1]), of_first[1:])
    assert reader(inner)


def test_times_by_which_groups_are_final_are_declared() -> None:
    """The topic has a punctuation for each step of progress, which must not count for a quarantine."""
    document = shop().model_dump(by_alias=True)
    steps = document["steps"]
    steps["timed"] = {"from": LEFT, "derive": {"minute": "date_trunc('minute', \"at\")"}}
    steps["matched"] |= {"join": ["timed", RIGHT], "window": 5}
    steps["by_minute"] = {"from": "matched", "aggregate": {"by": "minute", "measures": {"rows": "count"}}}
    document["tables"]["by_minute"] = {}
    found = chained(Pipeline.model_validate(document), None, HOUR)

    assert found.skipped_on == ("orders_minute",)  # a derived column may be null
    assert found.entry["matched"]["quarantine"] == "off"


@pytest.mark.parametrize(
    ("pipeline", "seconds"),
    [
        (shop((5, 7), (1, 2)), 5 + 7 + 2),
        (shop((5, 7), (40, 2)), 40),
        (shop((5, 7), (1, 2), type="right"), 5 + 7 + 1),
        (FULFILMENT, 28 * 86_400),
    ],
)
def test_lateness_is_both_windows_and_that_of_the_other_stream(pipeline: Pipeline, seconds: int) -> None:
    assert chained(pipeline, None, HOUR).lateness == timedelta(seconds=seconds) + HOUR


def test_rows_without_a_window_may_be_of_any_age() -> None:
    found = chained(shop((None, 5)), None, HOUR)
    assert found.lateness == FOR_EVER
    assert reader(found)


def test_a_step_in_front_of_the_join_has_no_punctuations() -> None:
    document = FULFILMENT.model_dump(by_alias=True, exclude_unset=True)
    document["publish"]["priced"] = {"topic": "priced"}
    pipeline = Pipeline.model_validate(document)
    found = chained(pipeline, "priced", HOUR)

    assert (found.topic, found.punctuated_on, found.lateness) == ("priced", (), HOUR)
    assert "orders_gross" in found.columns
    with pytest.raises(ConfigError, match="fulfilment publishes fulfilled, priced; name one of them"):
        chained(pipeline, None, HOUR)
    with pytest.raises(ConfigError, match="known"):
        chained(pipeline, "known", HOUR)


def test_what_has_no_event_time_is_refused() -> None:
    with pytest.raises(ConfigError, match="a full join has results without an event time of either side"):
        chained(shop(type="full"), None, HOUR)


def test_the_step_of_the_page_drops_repeats() -> None:
    """A batch that was broken off is published again, before and behind the punctuation of a key."""
    [text] = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    found = chained(shop(type="left"), None, HOUR)
    steps = yaml.safe_load(text.replace("from: paid", f"from: {found.name}"))["steps"]
    declared = {"name": "reader", "streams": found.entry, "steps": steps, "tables": {"once": {}}}
    spelled = {
        "orders_at": instant(5),
        "orders_kafka_partition": 0,
        "orders_order_id": 1,
        "payments_kafka_partition": 0,
    }
    rows = [
        spelled | {"orders_kafka_offset": order, "payments_kafka_offset": payment}
        for order, payment in ((0, 0), (0, 1), (1, None))
    ]
    closed = {"$punctuation": {"orders_order_id": {"equals": 1}}}
    sent = [*rows, rows[0], closed, *rows, closed]
    with tempfile.TemporaryDirectory() as directory:
        tasks = BucketTasks(Pipeline.model_validate(declared), [], 1, Path(directory))
        records: list[Located] = [
            (found.topic, 0, at, json.dumps(value).encode(), STAMPED) for at, value in enumerate(sent)
        ]
        batches = [tasks.batch(records[:4]), tasks.batch(records[4:])]

    coordinates = [f"{found.name}_{side}_kafka_offset" for side in (LEFT, RIGHT)]
    results = [tuple(row[name] for name in coordinates) for batch in batches for row in batch["results"]]
    assert results == [(0, 0), (0, 1), (1, None)]
    assert [letter for batch in batches for letter in batch["dead_letters"]] == []
    assert {row["reason"] for batch in batches for row in batch["violations"]} == {"closed"}


@cases(18)
@given(
    windows=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    lateness=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    kind=st.sampled_from(["inner", "left", "right", "semi"]),
    came=st.lists(
        st.tuples(st.sampled_from([LEFT, RIGHT]), st.integers(0, 2), st.integers(0, 20)), max_size=25
    ),
)
@example(  # the second result is as late as one can be
    windows=(2, 2),
    lateness=(0, 1),
    kind="inner",
    came=[(LEFT, 0, 7), (LEFT, 1, 12), (RIGHT, 1, 10), (RIGHT, 0, 9)],
)
@example(  # the order of 0 s has no partner, which is known with the payment of 20 s
    windows=(0, 0), lateness=(0, 0), kind="left", came=[(LEFT, 0, 0), (LEFT, 1, 20), (RIGHT, 1, 20)]
)
def test_a_chained_pipeline_loses_no_row(
    windows: tuple[int, int], lateness: tuple[int, int], kind: str, came: list[tuple[str, int, int]]
) -> None:
    """Each record is a batch, so pairs come in the order of records, and none is late.

    A row without a partner comes once progress has moved on, which it may do by all times that there are."""
    pipeline = shop(windows, lateness, type=kind)
    spread = timedelta(seconds=20 if kind in ("left", "right") else 0)
    found = chained(pipeline, None, spread)
    ends = {LEFT: 0, RIGHT: 0}
    published: list[bytes] = []
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        tasks = BucketTasks(pipeline, [], 1, Path(first))
        for topic, key, time in came:
            row = {"order_id": key, "at": instant(time)}
            record: Located = (topic, 0, ends[topic], json.dumps(row).encode(), STAMPED)
            ends[topic] += 1
            for result in tasks.batch([record])["results"]:
                spelled = {
                    name: None if value is None else scalar_of(value) for name, value in result.items()
                }
                published.append(json.dumps(spelled).encode())
        behind = BucketTasks(reader(found), [], 1, Path(second))
        records: list[Located] = [("matched", 0, at, value, STAMPED) for at, value in enumerate(published)]
        tables = [behind.batch([record]) for record in records]

    assert [letter for table in tables for letter in table["dead_letters"]] == []
    assert [row["reason"] for table in tables for row in table["violations"]] == []
    assert sum(len(table["results"]) for table in tables) == len(published)
