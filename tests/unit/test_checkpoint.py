"""A checkpoint belongs to one driver at a time, to one pipeline and to one set of tables."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from endmark.errors import ConfigError, MissingPartError
from endmark.joins.presets import Preset
from endmark.pipeline import Aggregate, ClosingRule, Publish, Tables
from endmark.pipeline.file import load
from endmark.pipeline.steps import AsOf, Fate, Park, Parking
from endmark.pipelines import AUCTION
from endmark.spark.checkpoint import claimed, pin, settings, state_format
from endmark.spark.tables import prepare, targets
from endmark.types import ColumnType, JoinType

SPEC = load(AUCTION, {"ENDMARK_RELATION_URL": "sqlite://"})


def parking(then: Fate, attempts: int) -> Parking:
    return Parking(park=Park(delay=timedelta(seconds=1), attempts=attempts, then=then))


def test_one_driver_at_a_time(tmp_path: Path) -> None:
    """A second job on a checkpoint is refused while the first holds it, and finds the same app id after."""
    with claimed(tmp_path) as first, pytest.raises(MissingPartError, match="in use by another job"):
        claimed(tmp_path).__enter__()
    with claimed(tmp_path) as second:
        assert first == second


def test_what_earlier_versions_did_not_pin(tmp_path: Path) -> None:
    """State keeps its format, since Spark cannot go on in another; any control topic is taken."""
    earlier = tmp_path / "earlier"
    with claimed(earlier), claimed(tmp_path):
        made = settings(SPEC, buckets=2)
        del made["pipeline.control.topic"]
        (earlier / "endmark" / "settings.json").write_text(json.dumps(made))
        for checkpoint in (earlier, tmp_path):
            pin(checkpoint, settings(SPEC, buckets=2))

    assert (state_format(earlier), state_format(tmp_path)) == ("1", "2")


def test_app_id_is_minted_with_its_checkpoint(tmp_path: Path) -> None:
    """Two checkpoints never share an app id, since their batch ids both begin at 0."""
    with claimed(tmp_path / "a") as one, claimed(tmp_path / "b") as other:
        assert one != other


KEY_TYPE = {
    name: stream.model_copy(update={"columns": stream.columns | {"item_id": ColumnType.STRING}})
    for name, stream in SPEC.streams.items()
}


RUNNING = Aggregate.model_validate(SPEC.model_dump()["aggregate"] | {"running": True})


@pytest.mark.parametrize(
    ("change", "buckets", "said"),
    [
        ({}, 3, "buckets was 2, is 3"),
        ({"aggregate": RUNNING}, 2, "aggregate.running was left out, is true"),
        (
            {"join": SPEC.join.model_copy(update={"preset": Preset.PJOIN})},
            2,
            'join.preset was left out, is "pjoin"',
        ),
        (
            {"lookup": SPEC.lookups[0].model_copy(update={"miss": "nulls", "strategy": "scan"})},
            2,
            'lookup.miss was left out, is "nulls"',
        ),
        (
            {"lookup": SPEC.lookups[0].model_copy(update={"cardinality": "many_to_many"})},
            2,
            'lookup.cardinality was left out, is "many_to_many"',
        ),
        (
            {"lookup": SPEC.lookups[0].model_copy(update={"miss": parking("drop", 2)})},
            2,
            'lookup.miss was left out, is {"park": {"then": "drop"}}',
        ),
        (
            {"lookup": SPEC.lookups[0].model_copy(update={"as_of": AsOf(stream="bid_at", relation="since")})},
            2,
            'lookup.as_of was left out, is {"stream": "bid_at", "relation": "since"}',
        ),
        (
            {"name": "sale"},
            2,
            'control.topic was "auction-control", is "sale-control"',
        ),
        (
            {"streams": KEY_TYPE},
            2,
            ", ".join(
                f'streams.{name}.columns.item_id was "long", is "string"' for name in ("bids", "items")
            ),
        ),
    ],
)
def test_changed_settings_are_named(tmp_path: Path, change: dict[str, Any], buckets: int, said: str) -> None:
    """State built with other settings is not gone on with; the message says which differ, and what to do."""
    changed = SPEC.model_copy(update=change)
    with claimed(tmp_path):
        pin(tmp_path, settings(SPEC, buckets=2))
        pin(tmp_path, settings(SPEC, buckets=2))
        with pytest.raises(ConfigError) as refused:
            pin(tmp_path, settings(changed, buckets=buckets))

    assert str(refused.value) == (
        f"checkpoint {tmp_path} was made with other settings: {said}; go back to them, or start with a new "
        "checkpoint and an empty warehouse"
    )


def test_parking_may_change_but_for_its_end(tmp_path: Path) -> None:
    """How often and how far apart the relation is asked is no matter of state; what comes of rows in the end
    is."""

    def pinned(then: Fate, attempts: int) -> None:
        lookup = SPEC.lookups[0].model_copy(update={"miss": parking(then, attempts)})
        pin(tmp_path, settings(SPEC.model_copy(update={"lookup": lookup}), buckets=2))

    with claimed(tmp_path):
        pinned("nulls", 2)
        pinned("nulls", 9)
        with pytest.raises(ConfigError, match=r'lookup\.miss\.park\.then was "nulls", is "dead_letter"'):
            pinned("dead_letter", 2)


def test_knobs_of_the_join_may_change(tmp_path: Path) -> None:
    """Also where an earlier version pinned them."""
    join = SPEC.join.model_copy(update={"purge_every": 3, "memory": 1000})
    with claimed(tmp_path):
        pin(tmp_path, settings(SPEC, buckets=2))
        file = tmp_path / "endmark" / "settings.json"
        pinned = json.loads(file.read_text())
        pinned["pipeline.join"] |= {"purge_every": 2, "memory": 500}
        file.write_text(json.dumps(pinned))

        pin(tmp_path, settings(SPEC, buckets=2))
        pin(tmp_path, settings(SPEC.model_copy(update={"join": join}), buckets=2))


def test_settings_of_the_first_version_are_understood() -> None:
    """A checkpoint of the auction made before joins had types goes on, and may publish from then on; another
    type of join is another setting."""
    kept = json.loads((Path(__file__).parent / "data" / "settings-v1.json").read_text())
    kept["pipeline.control.topic"] = "auction-control"
    outer = SPEC.model_copy(update={"join": SPEC.join.model_copy(update={"type": JoinType.LEFT})})

    renamed = SPEC.model_copy(update={"tables": Tables(punctuations="promises")})
    publishing = SPEC.model_copy(update={"publish": Publish(topic="joined")})

    assert settings(SPEC, buckets=2) == settings(publishing, buckets=2) == kept
    assert settings(renamed, buckets=2) != kept
    assert settings(outer, buckets=2) != kept
    told_of = (
        {"punctuation_scope": "topic"},
        {"ordered": {"item_id": "ascending"}},
        {"unique": ("item_id",)},
        {"clustered": ("item_id",)},
        {"closes": ClosingRule(on=("item_id",), when="price < 0")},
    )
    for declared in told_of:
        bids = SPEC.streams["bids"].model_copy(update=declared)
        told = SPEC.model_copy(update={"streams": SPEC.streams | {"bids": bids}})
        assert settings(told, buckets=2) != kept


def test_tables_of_another_checkpoint_are_refused(tmp_path: Path) -> None:
    """A fresh checkpoint on old tables would write their rows again."""
    tables = targets(SPEC, tmp_path)
    prepare(tables, "one")
    prepare(tables, "one")

    with pytest.raises(ConfigError, match="results was written from another checkpoint"):
        prepare(tables, "other")
