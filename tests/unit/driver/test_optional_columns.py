"""A column becomes optional under a checkpoint, unless that would change what the checkpoint has done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from endmark.driver.checkpoint import claimed, pin, pinned_settings, settings
from endmark.engine.channels import DEAD_LETTER_SCHEMA
from endmark.errors import ConfigError
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION

OPTIONAL = "streams.items.columns.category"


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
    refuse(checkpoint, "batch 0 (items/0 offsets 0 to 4) is unfinished; start the job once with the file as")
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
