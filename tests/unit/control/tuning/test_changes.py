"""The rules of change of all fields: each field has one, which is true and written down."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from endmark.control.tuning.changes import FIELDS, KNOBS, LINES, PINNED, rule_of
from endmark.driver.settings import settings
from endmark.engine.bucket.knob_turns import Knobs
from endmark.engine.bucket.plan import BucketPlan
from endmark.pipeline import Control, Pipeline
from endmark.pipeline.change_rules import Change, ChangeRule
from endmark.pipeline.fields import Model
from endmark.verify.judge.control import KNOBS as OF_VERIFY
from support.bucket_tasks import BucketTasks
from support.knob_turns import SELLERS
from support.verify_world import make_pipeline

ROOT = Path(__file__).parents[4]
PIPELINE = make_pipeline(
    looking={"cache": {}, "miss": {"park": {"delay": "1s", "attempts": 2}}, "time_per_batch": "1s"},
    idle=(None, 5),
    join={"where": "bids_price > 0", "memory": "1MB"},
)
# Says all there is to say, so that each field has a value to be changed.
SPEC = PIPELINE.model_dump(mode="json") | {
    "publish": {"matched": {"topic": "joined"}},
    "control": {"topic": "said"},
}


def pinned(said: dict[str, Any]) -> dict[str, Any]:
    """By a file that says anything, consistent or not."""
    pipeline = PIPELINE.model_copy(update={"control": Control.model_construct(**said["control"])})
    with patch.object(Pipeline, "model_dump", return_value=deepcopy(said)):
        return settings(pipeline, buckets=2)


def fields(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from fields(inner, (*path, name))
    else:
        yield path


@pytest.mark.parametrize("path", list(fields(SPEC)), ids=".".join)
def test_a_checkpoint_refuses_what_takes_a_new_one(path: tuple[str, ...]) -> None:
    """Each field is pinned to a checkpoint exactly if its rule says so."""
    said: Any = deepcopy(SPEC)
    *above, last = path
    inside = said
    for name in above:
        inside = inside[name]
    inside[last] = {"another": "value.one"} if inside[last] == {} else "another"

    assert (pinned(said) != pinned(SPEC)) == (rule_of(path).change in PINNED)


def test_each_field_is_declared_with_its_rule() -> None:
    """One that holds another part, and nothing else, may leave it to that part's fields."""
    for path, field in FIELDS.items():
        rules = [each for each in field.info.metadata if isinstance(each, ChangeRule)]
        kind = field.info.annotation
        is_part = isinstance(kind, type) and issubclass(kind, Model)
        assert len(rules) == 1 or (is_part and not rules), path


def test_each_field_of_the_schema_is_found() -> None:
    schema = json.loads((ROOT / "schemas" / "pipeline.v1.json").read_text())

    def paths(node: dict[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
        yield path
        for name, inner in node.get("properties", {}).items():
            yield from paths(inner, (*path, name))
        if isinstance(every := node.get("additionalProperties"), dict):
            yield from paths(every, (*path, "*"))
        for inner in [*node.get("anyOf", []), *node.get("oneOf", []), *filter(None, [node.get("items")])]:
            yield from paths(inner, path)

    there = set(paths(schema, ())) - {()}
    assert there >= FIELDS.keys()
    for path in there - {("batch",)}:  # all of which is live
        rule_of(path)
    turned = {
        path
        for path, field in FIELDS.items()
        if field.rule and field.rule.change in (Change.LIVE, Change.TURN)
    }
    assert turned == KNOBS.keys()


TURNED = {
    "steps.known.lookup.strategy": "mesh",
    "steps.known.lookup.page_rows": 1,
    "steps.known.lookup.time_per_batch": 7.0,
    "steps.known.lookup.memory": 7,
    "steps.known.lookup.cache.memory": 7,
    "steps.known.lookup.cache.lifetime": 7.0,
    "steps.known.lookup.cache.absent_lifetime": 7.0,
    "steps.matched.purge_every": 7,
    "steps.matched.memory": 7,
    "streams.*.event_time.idle": 7.0,
}


def test_each_knob_reaches_the_tasks(tmp_path: Path) -> None:
    """A live knob changes the plan of a bucket, unless it is the driver's. Nothing else changes the plan."""
    tasks = BucketTasks(PIPELINE, SELLERS, 1, tmp_path)

    def plan(**values: Any) -> BucketPlan:
        return Knobs(json.dumps(values).encode(), tasks.plan.steps).turned(tasks.plan)

    places = {name.replace(".known.", ".*.").replace(".matched.", ".*.") for name in TURNED}
    assert places | {"batch.records", "batch.every"} == {".".join(path) for path in KNOBS}
    for name, value in TURNED.items():
        assert plan(**{name.replace("*", "bids"): value}) != plan(), name
    assert plan(**{"steps.known.lookup.miss": "nulls"}) == plan()


def test_verify_knows_each_knob() -> None:
    """It keeps a table of its own, since it shares no code with what it judges."""
    declared: dict[type[Model], set[str]] = {}
    for path in KNOBS:
        declared.setdefault(FIELDS[path].part, set()).add(path[-1])

    assert declared == OF_VERIFY


def test_the_page_has_the_tables() -> None:
    page = (ROOT / "docs" / "knobs.md").read_text()
    knobs = [f"| `{'.'.join(path)}` | {knob.values} | {knob.effect} |" for path, knob in KNOBS.items()]
    others = [
        f"| `{name}` | {rule.change} | {rule.remark} |".replace("|  |", "| |")
        for name, rule in LINES.items()
        if rule.change is not Change.LIVE
    ]

    assert [line for line in page.splitlines() if line.startswith("| `")] == knobs + others
    for change in Change:
        assert f"*{change}*: {change.advice}" in page.replace("\n  ", " ")
