"""Commits of upserts: most of them do not read the log, and nobody can tell."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from endmark.driver.table_log import TableLog
from endmark.spark import tables
from support.upserted_table import KEY, Row, UpsertedTable, group

_COUNTRIES = (None, "de", "x/=y %")


class Table(UpsertedTable):
    """A table that one job upserts, with a checkpoint of the log after each seventh version."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, *partition_by: str) -> None:
        monkeypatch.setattr(tables, "_CHECKPOINT_INTERVAL", "7")
        super().__init__(directory, *partition_by)
        self.log = self.opened()

    def opened(self) -> TableLog:
        return TableLog(self.target.files(), KEY, "app")

    def change(self, rows: list[Row], batch: int) -> None:
        self.log.commit(self.write(rows), batch)

    def entries(self) -> list[list[dict[str, Any]]]:
        found = sorted((self.path / "_delta_log").glob("*.json"))
        return [[json.loads(line) for line in each.open()] for each in found]

    def writers(self) -> list[str]:
        """Who has committed each version."""
        infos = [actions[0]["commitInfo"]["engineInfo"] for actions in self.entries()]
        return [info.partition(":")[0] for info in infos]


def test_only_first_commits_and_checkpoints_go_through_delta_rs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit of delta-rs lists the whole log, so upserts became slower with each version."""
    table = Table(tmp_path, monkeypatch)
    for batch in range(16):
        table.change([group(item, batch) for item in range(batch, batch + 3)], batch)

    assert table.rows() == [group(item, min(item, 15)) for item in range(18)]
    ours, theirs = "endmark", "delta-rs"
    # Version 0 makes the table. A checkpoint comes after each seventh version.
    assert table.writers() == [theirs, theirs, *4 * [ours], theirs, *6 * [ours], theirs, *3 * [ours]]
    assert not [*(table.path / "_delta_log").glob(".*")]


def test_entries_say_what_those_of_delta_rs_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of each is compared, for files that are removed."""
    table = Table(tmp_path, monkeypatch, "country")
    rows = [group(1, 0) | {"country": 'å "/ %\n'}]
    table.change(rows, 0)
    table.change(rows, 1)
    table.log = table.opened()
    table.change(rows, 2)

    ours, theirs = ({next(iter(each)): each for each in entry} for entry in table.entries()[2:])
    assert ours.keys() == theirs.keys() == {"commitInfo", "add", "remove", "txn"}
    removed = [
        {name: value for name, value in each["remove"]["remove"].items() if value is not None}
        for each in (ours, theirs)
    ]
    assert removed[0].keys() == removed[1].keys()
    alike = ("partitionValues", "dataChange", "extendedFileMetadata")
    assert [removed[0][name] for name in alike] == [removed[1][name] for name in alike]


@pytest.mark.parametrize("seed", range(6))
def test_rows_are_there_once_whatever_others_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Jobs start anew, repeat batches, and meet upkeep that rewrites files.

    delta-rs puts its files into directories by partition, whose names are escaped.
    """
    table, chance = Table(tmp_path, monkeypatch, "country"), random.Random(seed)
    given: list[list[Row]] = []
    for _ in range(30):
        match chance.randrange(8):
            case 0:
                table.log = table.opened()
            case 1 if given:
                table.change(given[-1], len(given) - 1)
            case 2:
                DeltaTable(str(table.path)).optimize.compact()
            case _:
                is_over = {row["item"] for rows in given for row in rows if row["final"]}
                items = {99 + len(given), *(chance.randrange(30) for _ in range(3))} - is_over
                batch = len(given)
                rows = [group(item, batch, final=chance.randrange(4) == 0) for item in items]
                given.append([row | {"country": _COUNTRIES[row["item"] % 3]} for row in rows])
                table.change(given[-1], batch)

    newest = {row["item"]: row for rows in given for row in rows}
    assert table.rows() == [newest[item] for item in sorted(newest)]
    assert table.writers().count("endmark") > 3
