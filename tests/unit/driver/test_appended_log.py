"""Commits of appends: most of them do not read the log, and nobody can tell."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from endmark.driver.table_log import TableLog
from endmark.engine.delta_files import FileTable, write_files

SCHEMA = pa.schema([("batch", pa.int64()), ("shop", pa.string()), ("part", pa.string())])
CHECKPOINTS = {"delta.checkpointInterval": "7"}


class Table:
    """A table that gets a row and a file of each batch."""

    def __init__(self, directory: Path, *partition_by: str) -> None:
        self.path = directory / "t"
        DeltaTable.create(str(self.path), SCHEMA, partition_by=list(partition_by), configuration=CHECKPOINTS)
        self.files = FileTable(self.path, SCHEMA, partition_by=partition_by)
        self.log = self.opened()

    def opened(self) -> TableLog:
        return TableLog(self.files, (), "app")

    def append(self, batch: int, shop: str | None = "a", part: str | None = None) -> None:
        rows = pa.table([[batch], [shop], [part]], schema=SCHEMA)
        self.log.commit(list(write_files(self.files, rows)), batch)

    def entries(self) -> dict[int, list[dict[str, Any]]]:
        """The actions of each version whose entry is there."""
        found = sorted((self.path / "_delta_log").glob("*.json"))
        return {int(each.stem): [json.loads(line) for line in each.open()] for each in found}

    def writers(self) -> list[str]:
        """Who has committed each version."""
        infos = [actions[0]["commitInfo"]["engineInfo"] for actions in self.entries().values()]
        return [info.partition(":")[0] for info in infos]

    def batches(self) -> list[int]:
        return sorted(pa.table(DeltaTable(str(self.path)).scan())["batch"].to_pylist())


def test_only_first_commits_and_checkpoints_go_through_delta_rs(tmp_path: Path) -> None:
    table = Table(tmp_path)
    for batch in range(16):
        table.append(batch)

    assert table.batches() == [*range(16)]
    ours, theirs = "endmark", "delta-rs"
    # Version 0 makes the table. A checkpoint comes after each seventh version.
    assert table.writers() == [theirs, theirs, *4 * [ours], theirs, *6 * [ours], theirs, *3 * [ours]]
    log = table.path / "_delta_log"
    assert [each.name[:20] for each in sorted(log.glob("*.checkpoint.parquet"))] == [
        f"{n:020d}" for n in (6, 13)
    ]
    assert not [*log.glob(".*")]


def test_entries_say_what_those_of_delta_rs_say(tmp_path: Path) -> None:
    """One of each is compared, for values of partitions that need care."""
    table = Table(tmp_path, "shop", "part")
    for batch in range(2):
        table.append(batch, 'å "/ %\n', None)

    theirs, ours = (table.entries()[version] for version in (1, 2))
    assert (
        [[*action] for action in ours]
        == [[*action] for action in theirs]
        == [["commitInfo"], ["add"], ["txn"]]
    )
    added = [
        {name: value for name, value in each[1]["add"].items() if value is not None}
        for each in (ours, theirs)
    ]
    assert added[0].keys() == added[1].keys()
    alike = ("partitionValues", "dataChange")
    assert [added[0][name] for name in alike] == [added[1][name] for name in alike]
    assert ours[2]["txn"].keys() == theirs[2]["txn"].keys()
    infos = [each[0]["commitInfo"] for each in (ours, theirs)]
    for name in ("operation", "operationParameters"):
        assert infos[0][name] == infos[1][name]
    assert infos[0]["operationMetrics"].keys() == infos[1]["operationMetrics"].keys()
    assert pa.table(DeltaTable(str(table.path)).scan())["shop"].to_pylist() == 2 * ['å "/ %\n']
    assert DeltaTable(str(table.path)).transaction_version("app") == 1


@pytest.mark.parametrize("seed", range(8))
def test_batches_are_there_once_whatever_others_do(tmp_path: Path, seed: int) -> None:
    """Jobs start anew, repeat batches, and meet other writers and upkeep."""
    table, chance = Table(tmp_path), random.Random(seed)
    batch, others = 0, 0
    for _ in range(40):
        match chance.randrange(6):
            case 0:
                table.log = table.opened()
                table.append(max(0, batch - 1))
                batch = max(batch, 1)
            case 1:
                some = chance.randrange(batch + 1)
                table.append(some)
                batch = max(batch, some + 1)
            case 2:
                others -= 1
                write_deltalake(
                    str(table.path), pa.table([[others], ["b"], [None]], schema=SCHEMA), mode="append"
                )
            case 3:
                DeltaTable(str(table.path)).optimize.compact()
            case _:
                table.append(batch)
                batch += 1

    assert table.batches() == [*range(others, 0), *range(batch)]
    versions = sorted(table.entries())
    assert versions == [*range(versions[0], versions[-1] + 1)]
    assert table.writers().count("endmark") > 3


def test_a_table_with_further_features_is_written_by_delta_rs(tmp_path: Path) -> None:
    """A feed of changes, say."""
    table = Table(tmp_path)
    for batch in range(3):
        table.append(batch)
    DeltaTable(str(table.path)).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    for batch in range(3, 6):
        table.append(batch)

    assert table.writers()[3:] == ["endmark", *4 * ["delta-rs"]]
    assert table.batches() == [*range(6)]


def test_no_entry_is_written_behind_a_gap(tmp_path: Path) -> None:
    """An older copy of the table has taken its place, say. Its readers would not find the next version."""
    table = Table(tmp_path)
    for batch in range(3):
        table.append(batch)
    (table.path / "_delta_log" / f"{3:020d}.json").unlink()
    table.append(3)

    assert sorted(table.entries()) == [0, 1, 2, 3]
    assert table.batches() == [0, 1, 3]
