"""A migration says what a new checkpoint costs, refuses what would lose rows, and keeps what is old."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from endmark.driver import migration
from endmark.driver.checkpoint import claimed, keep_gaps, keep_start_offsets, known_tables, pin
from endmark.driver.migration import Loss, Migration, TopicReplay
from endmark.driver.settings import settings
from endmark.errors import ConfigError
from endmark.kafka.gaps import Gap
from endmark.pipeline import Pipeline
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION
from endmark.spark.tables import Table, prepare, targets
from endmark.verify.read.consume import Range


def auction(*assignments: str) -> Pipeline:
    return load(AUCTION, {"ENDMARK_RELATION_URL": "sqlite://"}, assignments)


PWJOIN = "steps.matched.preset=pwjoin"
SPEC, CHANGED = auction(), auction(PWJOIN)
TABLES = ["dead_letters", "groups", "punctuations", "results", "violations"]
KAFKA = {
    "items": [Range("items", 0, 0, 40)],
    "bids": [Range("bids", 0, 100, 1_300), Range("bids", 1, 7, 10)],
    "auction-control": [Range("auction-control", 0, 5, 6)],
}


@pytest.fixture
def app_id(tmp_path: Path) -> Iterator[str]:
    """A locked checkpoint of three batches, with its tables."""
    checkpoint = tmp_path / "checkpoint"
    with claimed(checkpoint) as app_id:
        pin(checkpoint, settings(SPEC, buckets=2), tmp_path / "warehouse")
        prepare(by_name(SPEC, tmp_path), app_id, checkpoint)
        (checkpoint / "spark" / "commits").mkdir(parents=True)
        (checkpoint / "spark" / "commits" / "2").touch()
        began(checkpoint, {"items": {"0": 0}, "bids": {"0": 100}, "auction-control": {"0": 0}})
        yield app_id


def by_name(pipeline: Pipeline, directory: Path) -> dict[str, Table]:
    return {table.path.name: table for table in targets(pipeline, directory / "warehouse")}


def began(checkpoint: Path, offsets: dict[str, dict[str, int]]) -> None:
    """Let a job have begun there."""
    keep_start_offsets(checkpoint, offsets)


def planned(
    directory: Path, app_id: str, pipeline: Pipeline = CHANGED, buckets: int | None = None
) -> Migration:
    return migration.plan(pipeline, directory / "checkpoint", app_id, directory / "warehouse", KAFKA, buckets)


def test_a_plan_says_what_it_costs(tmp_path: Path, app_id: str) -> None:
    """It names what differs, the records to read, the tables with their rows, and where old ones go."""
    before = sorted(tmp_path.rglob("*"))
    aside = tmp_path / "warehouse" / f"before-{app_id[-8:]}"
    found = planned(tmp_path, app_id, buckets=3)

    assert found.lines() == [
        f"checkpoint {tmp_path / 'checkpoint'}, 3 batches, cannot go on with this file:",
        "  buckets was 2, is 3 (a multiple of 2 is possible)",
        '  steps.matched.preset was "auto", is "pwjoin"',
        "a new checkpoint reads these topics from their first record:",
        "  auction-control: 1 records",
        "  bids: 1,203 records; 7 before them are gone (partition 1 begins at offset 7, the job began at 0)",
        "  items: 40 records",
        f"these tables are written anew, and the old ones are kept in {aside}:",
        *(f"  {name}: 0 rows" for name in TABLES),
        "rows are looked up in relations as they are now: sellers",
    ]
    assert json.loads(json.dumps(found.facts))["topics"][1]["losses"] == [
        {"partition": 1, "needed": 0, "available": 7}
    ]
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_that_the_checkpoint_can_take(tmp_path: Path, app_id: str) -> None:
    """A migration is not needed for it, and the plan says so. A table that the file has no more is named."""
    pipeline = SPEC.model_copy(update={"tables": {"results": SPEC.tables["results"]}})
    lines = planned(tmp_path, app_id, pipeline).lines()

    assert lines[0] == f"checkpoint {tmp_path / 'checkpoint'}, 3 batches, can go on with this file"
    assert "  groups: 0 rows, no table of the file any more" in lines


def test_lost_records_are_refused(tmp_path: Path, app_id: str) -> None:
    """The new tables would lack their rows. Records from before the first start were never read."""
    found = planned(tmp_path, app_id)
    with pytest.raises(ConfigError, match=r"would lack rows of bids: .*; 7 before .* --accept-loss$"):
        found.require_whole()
    began(tmp_path / "checkpoint", {"items": {"0": 0}, "bids": {"0": 100, "1": 7}})
    planned(tmp_path, app_id).require_whole()


def test_what_the_old_checkpoint_has_skipped_from_its_start_is_not_missed(
    tmp_path: Path, app_id: str
) -> None:
    keep_gaps(tmp_path / "checkpoint", [Gap("bids", 1, 0, 7)])

    planned(tmp_path, app_id).require_whole()


def test_the_control_topic_matters_for_knobs_that_change_results(tmp_path: Path, app_id: str) -> None:
    """Only `idle` is such a knob. Pulses and other turns may be gone."""
    idle = auction("streams.bids.event_time.idle=30s")

    lost = {topic.topic: topic.losses for topic in planned(tmp_path, app_id, idle).topics}
    assert lost["auction-control"] == (Loss(0, 0, 5),)
    assert TopicReplay("auction-control", 1, ()) in planned(tmp_path, app_id).topics


def test_what_is_old_is_kept(tmp_path: Path, app_id: str) -> None:
    """The next job begins with another id, and finds neither its offsets nor its tables."""
    checkpoint, warehouse = tmp_path / "checkpoint", tmp_path / "warehouse"
    known = known_tables(checkpoint)
    planned(tmp_path, app_id).put_aside()

    aside = f"before-{app_id[-8:]}"
    assert sorted(entry.name for entry in (warehouse / aside).iterdir()) == TABLES
    assert [entry.name for entry in warehouse.iterdir()] == [aside]
    assert known_tables(checkpoint / aside) == known
    assert (checkpoint / aside / "spark" / "commits" / "2").exists()
    assert [entry.name for entry in checkpoint.iterdir()] == [aside]
    with claimed(checkpoint) as new:
        assert new != app_id
        pin(checkpoint, settings(CHANGED, buckets=2), tmp_path / "warehouse")
        prepare(by_name(CHANGED, tmp_path), new, checkpoint)


@pytest.mark.parametrize("moved", range(1, 7))
def test_a_crash_half_way_is_gone_on_with(
    tmp_path: Path, app_id: str, moved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No job takes the rest, with the old file or the new one, and the command ends what it began."""
    checkpoint, rename = tmp_path / "checkpoint", Path.rename
    done: list[Path] = []

    def crash(path: Path, target: Path) -> Path:
        if len(done) == moved:
            raise KeyboardInterrupt
        done.append(path)
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", crash)
        with pytest.raises(KeyboardInterrupt):
            planned(tmp_path, app_id).put_aside()
    with pytest.raises(ConfigError, match="was made with other settings"):
        pin(checkpoint, settings(CHANGED, buckets=2), tmp_path / "warehouse")
    with pytest.raises(ConfigError, match="is missing, but checkpoint"):
        prepare(by_name(SPEC, tmp_path), app_id, checkpoint)

    planned(tmp_path, app_id).put_aside()
    aside = tmp_path / "warehouse" / f"before-{app_id[-8:]}"
    assert sorted(entry.name for entry in aside.iterdir()) == TABLES
    assert not (checkpoint / "endmark").exists()


def test_a_job_that_never_got_to_its_tables(tmp_path: Path) -> None:
    """Its checkpoint is put aside all the same."""
    checkpoint = tmp_path / "checkpoint"
    with claimed(checkpoint) as app_id:
        pin(checkpoint, settings(SPEC, buckets=2), tmp_path / "warehouse")
        found = planned(tmp_path, app_id)
        found.put_aside()
    assert (found.batches, found.tables) == (0, ())
    assert [entry.name for entry in checkpoint.iterdir()] == [found.aside]


def test_another_warehouse_is_refused(tmp_path: Path, app_id: str) -> None:
    """The old tables would stay where they are, and nobody would know."""
    with pytest.raises(ConfigError, match=r"typo has no table of checkpoint .* --warehouse"):
        migration.plan(CHANGED, tmp_path / "checkpoint", app_id, tmp_path / "typo", KAFKA)
    with claimed(tmp_path / "other") as other:
        prepare(by_name(SPEC, tmp_path / "others"), other, tmp_path / "other")
    with pytest.raises(ConfigError, match="is not the one of checkpoint"):
        migration.plan(CHANGED, tmp_path / "checkpoint", app_id, tmp_path / "others" / "warehouse", KAFKA)


def test_a_topic_is_published_by_one_checkpoint(tmp_path: Path, app_id: str) -> None:
    """Its readers would get all rows again."""
    publishing = auction(PWJOIN, "publish={matched: {topic: pairs}}")
    place = tmp_path / "checkpoint", app_id, tmp_path / "warehouse"
    with pytest.raises(ConfigError, match=r"publish\.matched\.topic: pairs has records"):
        migration.plan(publishing, *place, {**KAFKA, "pairs": [Range("pairs", 0, 9, 9)]})
    migration.plan(publishing, *place, {**KAFKA, "pairs": [Range("pairs", 0, 0, 0)]})


def test_there_must_be_a_checkpoint(tmp_path: Path) -> None:
    """A mistyped directory is not made."""
    with pytest.raises(ConfigError, match=r"no job has a checkpoint in .*nowhere"):
        migration.made_with(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
