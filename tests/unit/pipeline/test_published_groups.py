"""Topics of groups: which there may be, what they have, and how another pipeline reads them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from endmark.engine.channels import Buckets
from endmark.engine.stages import group_stages
from endmark.errors import ConfigError
from endmark.pipeline import Pipeline
from endmark.pipeline.boundedness import states
from endmark.pipeline.chain import FOR_EVER, chained
from endmark.pipeline.explanation import explained
from endmark.punctuation.scalars import scalar_of
from support.bucket_tasks import BucketTasks, Located
from support.verify_world import STAMPED, instant

BY_ORDER = {
    "rows": "count",
    "paid": {"sum": "amount"},
    "all": {"sorted": "amount"},
    "last": {"max": "payments.at"},
}
SIZES = {
    "from": "by_order",
    "aggregate": {"by": "rows", "measures": {"orders": "count", "last": {"max": "last"}}},
}


def shop(publish: dict[str, Any], kind: str = "inner", **parts: dict[str, Any]) -> Pipeline:
    """Orders and their payments, in groups by order and in groups of these by size. No table has any."""
    columns = {
        "orders": {"order_id": "long", "due": "timestamp", "at": "timestamp"},
        "payments": {"order_id": "long", "amount": "long", "at": "timestamp"},
    }
    streams = {
        name: {
            "topic": name,
            "columns": of,
            "event_time": {"column": "at"},
            "punctuated_on": "order_id",
        }
        for name, of in columns.items()
    }
    steps = {
        "paid": {"join": ["orders", "payments"], "on": "order_id", "window": "1h", "type": kind},
        "by_order": {"from": "paid", "aggregate": {"by": "order_id", "measures": BY_ORDER}},
        **parts.get("steps", {}),
    }
    tables = parts.get("tables", {})
    return Pipeline.model_validate(
        {"name": "shop", "streams": streams, "steps": steps, "tables": tables, "publish": publish}
    )


def test_a_topic_has_final_groups_or_each_change() -> None:
    final = shop({"by_order": {"topic": "out"}})
    changes = shop({"by_order": {"topic": "out", "mode": "changes"}})

    assert final.outputs.topics == {"groups:by_order": "out"}
    assert list(final.outputs.topic_columns("groups:by_order")) == ["order_id", *BY_ORDER]
    assert changes.outputs.topics == {"running:by_order": "out"}
    assert list(changes.outputs.topic_columns("running:by_order")) == ["order_id", *BY_ORDER, "final"]
    modes = [output.mode for found in map(explained, (final, changes)) for output in found.outputs]
    assert modes == [*3 * ["append"], "append", *3 * ["append"], "changes"]


def test_groups_that_a_topic_has_so_far_need_not_be_final() -> None:
    """Nothing closes groups by size, so a topic of the final ones would never have a record."""
    steps = {"sizes": SIZES}
    with pytest.raises(ValidationError, match="so no group would ever close"):
        shop({"sizes": {"topic": "out"}}, steps=steps)
    written = shop({"sizes": {"topic": "out", "mode": "changes"}}, steps=steps)

    (state,) = (str(state) for state in states(written) if state.input == "sizes")
    assert state == "sizes groups: one for each value of rows, for topic out"


@pytest.mark.parametrize("published", [True, False])
def test_final_groups_pass_the_stage_that_groups_them_once_more(published: bool) -> None:
    publish = {"by_order": {"topic": "out"}} if published else {}
    pipeline = shop(publish, steps={"sizes": SIZES}, tables={"sizes": {"mode": "upsert"}})
    (stage,) = group_stages(pipeline, Buckets((0,)), Buckets((0,)))

    assert [groups.shows for groups in stage.groups] == [published]


def test_a_measure_has_no_name_that_a_record_has() -> None:
    steps = {"by_order": {"from": "paid", "aggregate": {"by": "order_id", "measures": {"Final": "count"}}}}
    says = "publish.by_order: columns 'Final' and 'final' are one to Spark and Delta"

    with pytest.raises(ValidationError, match=re.escape(says)):
        shop({"by_order": {"topic": "out", "mode": "changes"}}, steps=steps)
    assert shop({"by_order": {"topic": "out"}}, steps=steps)


def test_the_entry_has_what_a_reader_may_rely_on() -> None:
    """A sum is null if it is too large, and a stream has no arrays."""
    found = chained(shop({"by_order": {"topic": "out"}}), None, FOR_EVER)

    entry = found.entry["by_order"]
    assert entry == {
        "topic": "out",
        "columns": {"order_id": "long", "rows": "long", "paid": "long?", "last": "timestamp"},
        "event_time": {"column": "last", "lateness": "36500d"},
        "extra": "ignore",
        "unique": ["order_id"],
    }
    assert yaml.safe_load("\n".join(found.lines())) == {"streams": found.entry}
    changes = chained(shop({"by_order": {"topic": "out", "mode": "changes"}}), None, FOR_EVER)
    assert changes.unique == ()
    assert str(changes.columns["final"]) == "boolean"


def test_a_time_that_may_be_in_the_future_is_no_event_time_if_there_is_one() -> None:
    """`ahead` would make violations of groups with a due date."""
    measures: dict[str, Any] = {"due": {"max": "orders.due"}, "rows": "count"}
    steps: dict[str, Any] = {
        "by_order": {"from": "paid", "aggregate": {"by": "order_id", "measures": measures}},
        "sizes": {
            "from": "by_order",
            "aggregate": {"by": "rows", "measures": {"due": {"max": "due"}, "last": {"max": "last"}}},
        },
    }
    publish = {"by_order": {"topic": "out"}, "sizes": {"topic": "sizes", "mode": "changes"}}
    measures |= {"last": {"max": "payments.at"}}
    pipeline = shop(publish, steps=steps)
    times = {step: chained(pipeline, step, FOR_EVER).entry[step]["event_time"] for step in publish}
    assert {step: time["column"] for step, time in times.items()} == {"by_order": "last", "sizes": "last"}

    del measures["last"], steps["sizes"], publish["sizes"]
    found = chained(shop(publish, steps=steps), None, FOR_EVER).entry["by_order"]["event_time"]
    assert found == {"column": "due", "lateness": "36500d", "ahead": None}


def test_the_groups_of_a_join_with_nulls_have_no_time() -> None:
    """An order without a payment has none of the payments' times, and so has its group."""
    with pytest.raises(ConfigError, match=r"steps\.by_order: no column of its groups is a time"):
        chained(shop({"by_order": {"topic": "out"}}, "left"), None, FOR_EVER)


def test_a_reader_takes_each_group_once(tmp_path: Path) -> None:
    for job in ("shop", "reader"):
        (tmp_path / job).mkdir()
    pipeline = shop({"by_order": {"topic": "out"}}, tables={"by_order": {}})
    rows = [("orders", {"order_id": key, "due": instant(1), "at": instant(1)}) for key in range(3)]
    rows += [("payments", {"order_id": key, "amount": key, "at": instant(9 - key)}) for key in (2, 1, 0, 0)]
    closed: dict[str, Any] = {"$punctuation": {"order_id": {"one_of": [0, 1]}}}
    rows += [("orders", closed), ("payments", closed)]
    records: list[Located] = [
        (topic, 0, place, json.dumps(value).encode(), STAMPED) for place, (topic, value) in enumerate(rows)
    ]
    groups = BucketTasks(pipeline, [], 1, tmp_path / "shop").batch(records)["groups:by_order"]
    spelled = [
        json.dumps(
            {name: value if isinstance(value, list) else scalar_of(value) for name, value in group.items()}
        ).encode()
        for group in groups
    ]

    found = chained(pipeline, None, FOR_EVER)
    reader = Pipeline.model_validate({"name": "reader", "streams": found.entry, "tables": {"by_order": {}}})
    behind = BucketTasks(reader, [], 1, tmp_path / "reader")
    twice: list[Located] = [("out", 0, place, value, STAMPED) for place, value in enumerate(2 * spelled)]
    read = behind.batch(twice)

    assert groups[0]["last"] > groups[1]["last"]
    assert [row["by_order_order_id"] for row in read["results"]] == [0, 1]
    assert read["dead_letters"] == []
    assert [row["reason"] for row in read["violations"]] == 2 * ["repeated"]
