"""The Delta tables of a job, when they are missing, moved, another's or of other columns."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from endmark.driver.checkpoint import claimed, known_tables, stop_others
from endmark.driver.table_log import TableLog
from endmark.engine.channels import VIOLATION_SCHEMA
from endmark.engine.delta_files import write_files
from endmark.errors import ConfigError
from endmark.spark.tables import Target, prepare


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[Path]:
    with claimed(tmp_path / "checkpoint"):
        yield tmp_path / "checkpoint"


def tables_in(warehouse: Path, *names: str) -> dict[str, Target]:
    return {name: Target(name, warehouse / name, VIOLATION_SCHEMA) for name in names}


def test_a_checkpoint_finds_its_tables_where_they_are_now(tmp_path: Path, checkpoint: Path) -> None:
    """They may be moved and restored; one may come later."""
    there, moved, backup = tmp_path / "there", tmp_path / "moved", tmp_path / "backup"
    prepare(tables_in(there, "a"), "one", checkpoint)
    prepare(tables_in(there, "a", "b"), "one", checkpoint)
    ids = {name: table.id for name, table in known_tables(checkpoint).items()}
    shutil.copytree(there, backup)
    there.rename(moved)
    prepare(tables_in(moved, "a", "b"), "one", checkpoint)
    assert {name: table.path for name, table in known_tables(checkpoint).items()} == {
        "a": str(moved / "a"),
        "b": str(moved / "b"),
    }
    shutil.rmtree(moved)
    backup.rename(moved)
    prepare(tables_in(moved, "b"), "one", checkpoint)

    assert {name: table.id for name, table in known_tables(checkpoint).items()} == ids
    assert sorted(ids) == ["a", "b"]


def test_a_table_ahead_of_its_checkpoint_is_refused(tmp_path: Path, checkpoint: Path) -> None:
    """The next batch would have the number of one that the table has, and the table would skip it."""
    tables = tables_in(tmp_path, "a", "b")
    prepare(tables, "one", checkpoint)
    log = TableLog(tables["b"].files(), (), "one")
    log.commit(write_files(tables["b"].files(), VIOLATION_SCHEMA.empty_table()), 3)

    for planned, knows in (([], "no batch"), (["0", "1", "2"], "no batch after 2")):
        for name in planned:
            (checkpoint / "spark" / "offsets").mkdir(parents=True, exist_ok=True)
            (checkpoint / "spark" / "offsets" / name).touch()
        with pytest.raises(
            ConfigError, match=rf"table {tmp_path / 'b'} has batch 3, .* knows {knows}; it is an"
        ):
            prepare(tables, "one", checkpoint)
    (checkpoint / "spark" / "offsets" / "3").touch()
    prepare(tables, "one", checkpoint)


def test_an_older_copy_of_a_table_is_refused(tmp_path: Path, checkpoint: Path) -> None:
    """The rows between would be missing for ever, unless the only batch that it lacks is repeated."""
    tables = tables_in(tmp_path, "a")
    prepare(tables, "one", checkpoint)
    log = TableLog(tables["a"].files(), (), "one")
    (checkpoint / "spark" / "offsets").mkdir(parents=True)
    (checkpoint / "spark" / "offsets" / "3").touch()
    for batch in (2, 3):
        shutil.copytree(tmp_path / "a", tmp_path / f"before {batch}")
        log.commit(write_files(tables["a"].files(), VIOLATION_SCHEMA.empty_table()), batch)
    prepare(tables, "one", checkpoint, 4)

    for older, has in (("before 2", "no batch"), ("before 3", "no batch after 2")):
        shutil.rmtree(tmp_path / "a")
        (tmp_path / older).rename(tmp_path / "a")
        with pytest.raises(
            ConfigError, match=rf"a has {has}, but .* batch 3 to it, so the table is an older"
        ):
            prepare(tables, "one", checkpoint, 4)
    prepare(tables, "one", checkpoint, 3)


def test_a_missing_table_is_not_made_again(tmp_path: Path, checkpoint: Path) -> None:
    """Rows that are in it would be missing for ever; nothing is made beside it either."""
    prepare(tables_in(tmp_path / "right", "a"), "one", checkpoint)
    known = known_tables(checkpoint)
    with pytest.raises(ConfigError) as refused:
        prepare(tables_in(tmp_path / "typo", "b", "a"), "one", checkpoint)

    assert str(refused.value) == (
        f"table {tmp_path / 'typo' / 'a'} is missing, but checkpoint {checkpoint} goes on with Delta table "
        f"{known['a'].id}, which was last at {tmp_path / 'right' / 'a'}; name the directory where that one "
        "is now, restore it, or begin a new checkpoint by `endmark migrate FILE`, which also finishes a "
        "migration that was broken off"
    )
    assert not (tmp_path / "typo").exists()
    assert known_tables(checkpoint) == known


def test_another_table_is_refused_by_both_ids(tmp_path: Path, checkpoint: Path) -> None:
    """Even a table that was made for this checkpoint is refused if it is not the one that it goes on with."""
    prepare(tables_in(tmp_path / "right", "a"), "one", checkpoint)
    with claimed(tmp_path / "second"):
        prepare(tables_in(tmp_path / "wrong", "a"), "one", tmp_path / "second")
    mine, other = (known_tables(each)["a"].id for each in (checkpoint, tmp_path / "second"))

    with pytest.raises(ConfigError, match=rf"another one \(Delta table {other}\).* Delta table {mine}"):
        prepare(tables_in(tmp_path / "wrong", "a"), "one", checkpoint)


def test_a_crash_before_the_checkpoint_knows_its_tables(tmp_path: Path, checkpoint: Path) -> None:
    """Some are there, by their properties its own; the others are made, and it knows all."""
    prepare(tables_in(tmp_path / "there", "a"), "one", checkpoint)
    known = known_tables(checkpoint)
    (checkpoint / "endmark" / "tables.json").unlink()
    prepare(tables_in(tmp_path / "there", "a", "b"), "one", checkpoint)

    assert known_tables(checkpoint)["a"] == known["a"]
    with pytest.raises(ConfigError, match="is missing"):
        prepare(tables_in(tmp_path / "typo", "b"), "one", checkpoint)


def test_a_table_may_be_described_and_not_be_constrained(tmp_path: Path, checkpoint: Path) -> None:
    """A comment of another engine changes nothing. A constraint would promise readers what no job checks."""
    tables = tables_in(tmp_path / "there", "a")
    prepare(tables, "one", checkpoint)
    delta = DeltaTable(tmp_path / "there" / "a")
    delta.alter.set_table_description("Bids with their items")
    prepare(tables, "one", checkpoint)

    log = TableLog(tables["a"].files(), (), "one")
    delta.alter.add_constraint({"small": f"{tables['a'].schema.names[0]} is not null"})

    with pytest.raises(ConfigError, match="has the constraint 'small', which a job does not check; drop it"):
        log.commit([], 0)
    with pytest.raises(ConfigError, match="has the constraint 'small'"):
        prepare(tables, "one", checkpoint)


def test_a_table_that_comes_later_says_so(tmp_path: Path, checkpoint: Path) -> None:
    """The note outlives a crash and a move."""
    prepare(tables_in(tmp_path / "there", "a"), "one", checkpoint)
    prepare(tables_in(tmp_path / "there", "a", "b"), "one", checkpoint, 7)
    (checkpoint / "endmark" / "tables.json").unlink()
    prepare(tables_in(tmp_path / "there", "a", "b"), "one", checkpoint, 8)

    found = {name: DeltaTable(tmp_path / "there" / name).metadata().configuration for name in ("a", "b")}
    assert {name: each["endmark.checkpoint"] for name, each in found.items()} == {"a": "one", "b": "one"}
    assert {name: each.get("endmark.sinceBatch") for name, each in found.items()} == {"a": None, "b": "7"}
    with (
        claimed(tmp_path / "second"),
        pytest.raises(ConfigError, match="was written from another checkpoint"),
    ):
        prepare(tables_in(tmp_path / "there", "b"), "two", tmp_path / "second")


def test_a_table_that_was_away_does_not_come_back(tmp_path: Path, checkpoint: Path) -> None:
    """It lacks the rows of the batches that it was away, unless there were none."""
    prepare(tables_in(tmp_path, "a", "b"), "one", checkpoint)
    stop_others(checkpoint, ["a"], 4)
    prepare(tables_in(tmp_path, "a", "b"), "one", checkpoint, 4)
    stop_others(checkpoint, ["a", "b"], 4)
    stop_others(checkpoint, ["a"], 5)
    stop_others(checkpoint, ["a"], 6)

    with pytest.raises(ConfigError, match=r"b was taken out .* since batch 5; .* `endmark migrate FILE`$"):
        prepare(tables_in(tmp_path, "a", "b"), "one", checkpoint, 6)
    prepare(tables_in(tmp_path, "a"), "one", checkpoint, 6)


def test_a_table_with_other_columns_is_refused(tmp_path: Path, checkpoint: Path) -> None:
    """Nothing is made beside it; Delta itself would refuse the files of the first batch, and stop the job."""
    first = Target("violations", tmp_path / "t", pa.schema([VIOLATION_SCHEMA.field(0)]))
    prepare({"t": first}, "one", checkpoint)
    wider = Target("violations", tmp_path / "t", VIOLATION_SCHEMA)

    with pytest.raises(ConfigError, match="t has the columns topic, but this version writes topic, par"):
        prepare({"t": wider, "u": Target("u", tmp_path / "u", VIOLATION_SCHEMA)}, "one", checkpoint)
    assert not (tmp_path / "u").exists()


def test_a_table_with_a_column_of_another_type_is_refused(tmp_path: Path, checkpoint: Path) -> None:
    """Delta refused the first batch with rows, and the error was the trace of a query that had ended."""

    def table(amount: pa.DataType) -> dict[str, Target]:
        tags = pa.list_(pa.field("element", pa.string(), nullable=amount == pa.decimal128(18, 2)))
        return {"t": Target("t", tmp_path / "t", pa.schema([("amount", amount), ("tags", tags)]))}

    prepare(table(pa.decimal128(18, 2)), "one", checkpoint)
    prepare(table(pa.decimal128(18, 2)), "one", checkpoint)
    for other, spelled in ((pa.decimal128(20, 2), r"decimal\(20,2\)"), (pa.float64(), "double")):
        with pytest.raises(ConfigError, match=rf"has decimal\(18,2\) as amount, but .* writes {spelled};"):
            prepare(table(other), "one", checkpoint)


def test_a_table_with_a_field_of_another_type_within_a_column_is_refused(
    tmp_path: Path, checkpoint: Path
) -> None:
    """Delta refused the first batch with rows here, too. It takes fields in any order, or without nulls."""

    def table(inner: pa.DataType) -> dict[str, Target]:
        within = pa.map_(pa.string(), pa.list_(inner))
        return {"t": Target("t", tmp_path / "t", pa.schema([("who", within)]))}

    name, age = pa.field("name", pa.string()), pa.field("age", pa.int64())
    prepare(table(pa.struct([name, age])), "one", checkpoint)
    prepare(table(pa.struct([age, name.with_nullable(False)])), "one", checkpoint)
    with pytest.raises(ConfigError) as refused:
        prepare(table(pa.struct([name, age, pa.field("born", pa.date32())])), "one", checkpoint)
    assert str(refused.value) == (
        f"table {tmp_path / 't'} has map<string,array<struct<age:long,name:string>>> as who, but this "
        "version writes map<string,array<struct<age:long,born:date,name:string>>>; write that type again, or "
        "start with a new checkpoint and an empty warehouse"
    )


def test_a_table_that_cannot_be_made_is_refused_in_a_line(tmp_path: Path, checkpoint: Path) -> None:
    (tmp_path / "full" / "a").mkdir(parents=True)
    (tmp_path / "full" / "a" / "_delta_log").touch()  # where a directory has to be
    with pytest.raises(ConfigError) as refused:
        prepare(tables_in(tmp_path / "full", "a"), "one", checkpoint)

    said = str(refused.value)
    assert said.startswith(f"table {tmp_path / 'full' / 'a'} cannot be made: Generic LocalFileSystem error")
    assert said.endswith("Not a directory (os error 20); name a warehouse that this user can write")
    assert said.isprintable()


def test_a_warehouse_whose_path_has_an_escape_is_refused(tmp_path: Path, checkpoint: Path) -> None:
    """delta-rs made a table there, and looked for it below `a b`: a job ended with a stack trace."""
    with pytest.raises(ConfigError, match=r"a%20b/t: .*%20.*; name a warehouse without it"):
        prepare(tables_in(tmp_path / "a%20b", "t"), "one", checkpoint)
    assert not (tmp_path / "a%20b").exists()

    prepare(tables_in(tmp_path / "100%", "t"), "one", checkpoint)


def test_a_table_that_is_partitioned_otherwise_is_refused(tmp_path: Path, checkpoint: Path) -> None:
    """Files of both kinds would be one table in which readers find some rows in no partition."""

    def partitioned(*columns: str) -> dict[str, Target]:
        return {"t": Target("violations", tmp_path / "t", VIOLATION_SCHEMA, partition_by=columns)}

    prepare(partitioned("reason", "topic"), "one", checkpoint)
    prepare(partitioned("reason", "topic"), "one", checkpoint)
    for columns, said in (((), "no column"), (("reason",), "reason"), (("topic", "reason"), "topic, reason")):
        with pytest.raises(
            ConfigError, match=f"t is partitioned by reason, topic, but the pipeline file says {said};"
        ):
            prepare(partitioned(*columns), "one", checkpoint)


def test_a_table_gets_a_new_column(tmp_path: Path, checkpoint: Path) -> None:
    """The column is the last one, wherever the file has it. Other columns are refused, and change nothing."""
    fields = [("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("batch", pa.int64())]
    noted = [fields[0], ("note", pa.string()), *fields[1:]]

    def begin(columns: list[tuple[str, pa.DataType]], *added: str) -> list[str]:
        target = Target("running", tmp_path / "a", pa.schema(columns), numbered=True)
        prepare({"a": target}, "one", checkpoint, 3, added)
        return [field.name for field in DeltaTable(tmp_path / "a").schema().fields]

    assert begin(fields) == ["id", "at", "batch"]
    with pytest.raises(
        ConfigError, match="has the columns id, at, batch, but this version writes id, note, at"
    ):
        begin(noted)
    assert begin(noted, "note", "of_another_table") == ["id", "at", "batch", "note"]
    assert begin(noted[::-1], "note") == ["id", "at", "batch", "note"]
    assert DeltaTable(tmp_path / "a").version() == 1
    with pytest.raises(
        ConfigError, match="has the columns id, at, batch, note, but this version writes id, at"
    ):
        begin(fields, "note")
