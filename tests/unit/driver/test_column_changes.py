"""A column becomes optional, or is added, unless that would change what the checkpoint has done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from endmark.driver.checkpoint import claimed, first_offsets, pin, pinned_settings
from endmark.driver.settings import settings
from endmark.engine.channels import DEAD_LETTER_SCHEMA
from endmark.errors import ConfigError
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION
from support.planned_batches import spark_checkpoint

OPTIONAL = "streams.items.columns.category"
ADDED = "streams.items.columns.note"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[Path]:
    with claimed(tmp_path / "checkpoint"):
        yield tmp_path / "checkpoint"


def take(checkpoint: Path, category: str = "string?", price: str = "double", *assignments: str) -> None:
    """Pin the auction with these types of two columns."""
    types = f"{OPTIONAL}={category}", f"streams.items.columns.start_price={price}"
    pipeline = load(AUCTION, {"ENDMARK_RELATION_URL": "sqlite://"}, [*types, *assignments])
    pin(checkpoint, settings(pipeline, buckets=2), checkpoint.parent / "warehouse")


def refuse(checkpoint: Path, *parts: str, assignments: tuple[str, ...] = ()) -> None:
    before = pinned_settings(checkpoint)
    with pytest.raises(ConfigError) as refused:
        take(checkpoint, "string?", "double", *assignments)
    for part in (f'{OPTIONAL} was "string", is "string?"', "`endmark migrate FILE`", *parts):
        assert part in str(refused.value)
    assert pinned_settings(checkpoint) == before


def dead_letter(checkpoint: Path, topic: str, reason: str) -> None:
    row = {"topic": topic, "partition": 0, "offset": 1, "reason": reason, "error": "", "value": b"{}"}
    rows = pa.Table.from_pylist([row], DEAD_LETTER_SCHEMA)
    write_deltalake(checkpoint.parent / "warehouse" / "dead_letters", rows, mode="append")


def test_a_column_becomes_optional_and_stays_so(checkpoint: Path) -> None:
    """Rows without it may be in state and tables by then. Dead letters of other reasons and topics do not
    count, since the new file would make them, too."""
    take(checkpoint, "string")
    dead_letter(checkpoint, "items", "wrong_type")
    dead_letter(checkpoint, "bids", "missing_field")
    take(checkpoint)
    take(checkpoint)
    take(checkpoint, "string?", "double?")
    with pytest.raises(ConfigError, match=r'category was "string\?", is "string"; go back') as refused:
        take(checkpoint, "string", "double?")
    assert "start_price" not in str(refused.value)


def test_other_types_are_refused(checkpoint: Path) -> None:
    take(checkpoint, "string")
    with pytest.raises(ConfigError, match=r'start_price was "double", is "long\?"; go back'):
        take(checkpoint, "string", "long?")


def test_earlier_records_would_have_been_rows(checkpoint: Path) -> None:
    """Their dead letters are in the table, and the new file would not make them."""
    take(checkpoint, "string")
    dead_letter(checkpoint, "items", "missing_field")
    refuse(checkpoint, f"; {OPTIONAL} becomes optional by a new checkpoint alone: 1 records of topic items")


def test_half_a_batch_is_ended_first(checkpoint: Path) -> None:
    """Its dead letters may be written already. The next attempt would make rows of them, too."""
    take(checkpoint, "string")
    offsets, commits = (checkpoint / "spark" / name for name in ("offsets", "commits"))
    offsets.mkdir(parents=True)
    commits.mkdir()
    (offsets / "0").write_text('v1\n{}\n{"items": {"0": 5}}')
    with pytest.raises(ConfigError) as refused:
        take(checkpoint, "string?", "double?")
    why = "batch 0 (items/0 offsets 0 to 4) is unfinished: run the job once with the file as it was and"
    assert str(refused.value).count(why) == 1
    assert "--available-now" in str(refused.value)
    assert "by a new checkpoint alone" not in str(refused.value)
    (commits / "0").touch()
    take(checkpoint)


@pytest.mark.parametrize(
    "assignment",
    [
        "steps.known.lookup.key=seller_id",
        "steps.matched.where=items_category <> 'x'",
        "steps.by_item.aggregate.measures.kind={last: items.category}",
    ],
)
def test_a_column_that_a_step_names(checkpoint: Path, assignment: str) -> None:
    """Keys of lookups, for example, are looked up in other buckets if they may be null."""
    named = "category" in assignment
    take(checkpoint, "string", "double", assignment)
    if named:
        refuse(checkpoint, "a step names it", assignments=(assignment,))
    else:
        take(checkpoint, "string?", "double", assignment)


def test_other_formats(checkpoint: Path) -> None:
    """An empty element of XML is a text, or null if the column is optional."""
    take(checkpoint, "string", "double", "streams.items.format=xml")
    refuse(checkpoint, "earlier rows in xml could be", assignments=("streams.items.format=xml",))


def add(checkpoint: Path, *assignments: str) -> None:
    """Pin the auction with these further columns, or other assignments."""
    take(checkpoint, "string", "double", *assignments)


def refuse_new(checkpoint: Path, why: str, *assignments: str) -> None:
    before = pinned_settings(checkpoint)
    with pytest.raises(ConfigError) as refused:
        add(checkpoint, *assignments)
    assert f"; {ADDED} is added by a new checkpoint alone: {why}" in str(refused.value)
    assert (pinned_settings(checkpoint), first_offsets(checkpoint)) == (before, {})


def test_columns_are_added_from_the_next_batch_on(checkpoint: Path) -> None:
    """Each has its own first offsets. A restart in between changes none of them."""
    add(checkpoint)
    ends = [{"items": {"0": 5, "10": 7}, "bids": {"0": 2}}, {"items": {"0": 9, "10": 7}, "bids": {"0": 3}}]
    spark_checkpoint(checkpoint / "spark", ends[:1], committed=1)
    add(checkpoint, f"{ADDED}=string?")
    assert first_offsets(checkpoint) == {"items": {"note": {0: 5, 10: 7}}}

    spark_checkpoint(checkpoint / "spark", ends, committed=2)
    for _ in range(2):
        add(checkpoint, f"{ADDED}=string?", "streams.bids.columns.note=long?", f"{ADDED}2=long?")

    assert first_offsets(checkpoint) == {
        "items": {"note": {0: 5, 10: 7}, "note2": {0: 9, 10: 7}},
        "bids": {"note": {0: 3}},
    }
    with pytest.raises(ConfigError, match=r'note was "string\?", is left out; go back'):
        add(checkpoint, "streams.bids.columns.note=long?", f"{ADDED}2=long?")


def test_a_column_is_added_with_the_part_that_it_is_taken_from(checkpoint: Path) -> None:
    """Afterwards it is pinned, like the column itself."""
    add(checkpoint)
    add(checkpoint, f"{ADDED}=string?", "streams.items.taken_from.note=header.note")
    assert first_offsets(checkpoint) == {"items": {"note": {}}}

    with pytest.raises(ConfigError, match=r"streams\.items\.taken_from\.note"):
        add(checkpoint, f"{ADDED}=string?", "streams.items.taken_from.note=key")


def test_a_crash_before_the_settings_are_kept(checkpoint: Path) -> None:
    """No batch was run, so the column is added again, at the same offsets."""
    add(checkpoint)
    spark_checkpoint(checkpoint / "spark", [{"items": {"0": 5}}], committed=1)
    file = checkpoint / "endmark" / "settings.json"
    before = file.read_text()
    add(checkpoint, f"{ADDED}=string?")
    file.write_text(before)
    add(checkpoint, f"{ADDED}=string?")
    assert first_offsets(checkpoint) == {"items": {"note": {0: 5}}}


def test_a_column_of_each_record_since_the_first(checkpoint: Path) -> None:
    """A checkpoint without a batch reads all of them with the column."""
    add(checkpoint)
    add(checkpoint, f"{ADDED}=string?")
    assert first_offsets(checkpoint) == {"items": {"note": {}}}


def test_new_columns_that_are_refused(checkpoint: Path) -> None:
    """Rows of earlier batches have no value. A batch that is repeated must give the same rows."""
    add(checkpoint)
    refuse_new(checkpoint, "rows before it have no value; make it optional (string?)", f"{ADDED}=string")
    spark_checkpoint(checkpoint / "spark", [{"items": {"0": 5}}], committed=0)
    with pytest.raises(
        ConfigError, match=r"and batch 0 \(items/0 offsets 0 to 4\) is unfinished: run the job"
    ):
        add(checkpoint, f"{ADDED}=string?")
    assert first_offsets(checkpoint) == {}


def test_a_new_column_of_a_name_that_a_step_has(checkpoint: Path) -> None:
    """It could mean a column of another stream or of a relation up to now."""
    step = "steps.by_item.aggregate.measures.note=count"
    add(checkpoint, step)
    refuse_new(checkpoint, "a step names it", step, f"{ADDED}=string?")
