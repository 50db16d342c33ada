"""Another value in any column of any table is noticed, unless it is one that `verify` takes as given."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from endmark.pipeline import Pipeline
from endmark.verify.verification import verify_records
from support.bucket_tasks import BucketTasks, total
from support.verify_places import schema_of, seed_sellers, to_kafka, write_table
from support.verify_recompute import SELLERS, tables_of
from support.verify_warehouse import RECORDS
from support.verify_world import PARTITIONS, Row, locate, make_pipeline

PIPELINE = make_pipeline(running=True)
CHANNELS = {"punctuations": "announced"}
# A value that is as good as what the engine wrote, and one that is none.
TAKEN_AS_GIVEN: dict[tuple[str, str], tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    ("dead_letters", "error"): (lambda _: "other words", lambda _: ""),
    ("punctuations", "completed_by"): (lambda _: "expired", lambda _: "chance"),
    ("running:by_key", "batch"): (lambda batch: batch + 100, lambda _: 0),
}
COLUMNS = [(table, column) for table in tables_of(PIPELINE) for column in schema_of(PIPELINE, table).names]


class Finished:
    """The tables of a job that the engine has run, and the same with one value changed."""

    def __init__(self, directory: Path) -> None:
        url = f"sqlite:///{directory / 'r.db'}"
        seed_sellers(url, SELLERS)
        self.pipeline: Pipeline = make_pipeline(url, running=True)
        self._path = directory / "warehouse"
        tasks = BucketTasks(self.pipeline, SELLERS, PARTITIONS, directory)
        located = locate(RECORDS)
        found = total(tasks.batch(located[at : at + 7]) for at in range(0, len(located), 7))
        self._rows = {
            table: [tuple(row.values()) for row in self._ordered(table, found[CHANNELS.get(table, table)])]
            for table in tables_of(self.pipeline)
        }
        for table, rows in self._rows.items():
            write_table(self.pipeline, self._path, self.pipeline.outputs.directories[table], rows)

    def _ordered(self, table: str, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for row in rows:
            yield {column: row[column] for column in schema_of(self.pipeline, table).names}

    def is_right(self) -> bool:
        return verify_records(self.pipeline, *to_kafka(RECORDS), self._path).ok

    def is_right_with(self, table: str, column: str, change: Callable[[Any], Any]) -> bool:
        """Whether `verify` takes the tables after a change in the last row that has a value there."""
        place = schema_of(self.pipeline, table).names.index(column)
        rows: list[Row] = list(self._rows[table])
        at = max(number for number, row in enumerate(rows) if row[place] is not None)
        rows[at] = (*rows[at][:place], change(rows[at][place]), *rows[at][place + 1 :])
        try:
            self._rewrite(table, rows)
            return self.is_right()
        finally:
            self._rewrite(table, self._rows[table])

    def _rewrite(self, table: str, rows: list[Row]) -> None:
        directory = self.pipeline.outputs.directories[table]
        shutil.rmtree(self._path / directory)
        write_table(self.pipeline, self._path, directory, rows)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return Finished(tmp_path_factory.mktemp("finished"))


def another(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case str():
            return f"{value}!"
        case bytes():
            return value + b"!"
        case datetime():
            return value + timedelta(microseconds=1)
        case date():
            return value + timedelta(days=1)
    return 0 if value == -math.inf else value + 1


def test_the_tables_of_the_engine_are_right(finished: Finished) -> None:
    """All six, before anything is changed."""
    assert len(tables_of(finished.pipeline)) == 6
    assert finished.is_right()


@pytest.mark.parametrize(("table", "column"), [each for each in COLUMNS if each not in TAKEN_AS_GIVEN])
def test_another_value_is_noticed(finished: Finished, table: str, column: str) -> None:
    """Whatever the column, and however little the value differs."""
    assert not finished.is_right_with(table, column, another)


@pytest.mark.parametrize("member", ["item_id", "price", "urgent", "note", "due", "tip", "bid_at"])
def test_each_value_of_a_record_counts(finished: Finished, member: str) -> None:
    """A violation's `record` is the row in JSON, of which no value may differ, nor be missing."""

    def changed(record: str) -> str:
        members = json.loads(record)
        return json.dumps(members | {member: another(members[member])})

    def without(record: str) -> str:
        return json.dumps({name: value for name, value in json.loads(record).items() if name != member})

    assert not finished.is_right_with("violations", "record", changed)
    assert not finished.is_right_with("violations", "record", without)


@pytest.mark.parametrize(("table", "column"), TAKEN_AS_GIVEN)
def test_what_is_taken_as_given_must_make_sense(finished: Finished, table: str, column: str) -> None:
    """Another text, word or number that can be is not noticed, and one that cannot be is."""
    possible, impossible = TAKEN_AS_GIVEN[table, column]
    assert finished.is_right_with(table, column, possible)
    assert not finished.is_right_with(table, column, impossible)
