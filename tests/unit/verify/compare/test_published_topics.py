"""A faithful topic passes, and any record lost, made up, changed or misplaced is found."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from rich.console import Console

from endmark.pipeline import Pipeline
from endmark.verify.report import TopicComparison, VerifyReport, render
from endmark.verify.verification import verify_records
from support.published_topics import marked, sent, spelled
from support.verify_places import to_kafka, write_table
from support.verify_warehouse import RECORDS, TABLES, Warehouse
from support.verify_world import TWO_EACH, Record, locate, promise

PATTERN = '{"items_item_id":{"between":{"from":100}}}'
PROMISES = [promise("items", {"item_id": {"between": {"from": 100}}}, partition) for partition in (0, 1)]
PARTITIONS = {"joined": 2, "groups": 1, "listed": 1}
FIRST, SECOND = 0, 1  # batches
VIOLATED = (1, 3)  # the place of the item that is late


class World:
    """A warehouse that also publishes its results, its groups, and its items.

    The first batch makes most results. The second one makes the others and closes keys, and a crash has
    repeated it. Keys of results are in the partition of their parity.

    Attributes:
        topics: the records of each topic, which a test may change.
    """

    def __init__(self, directory: Path, mode: str) -> None:
        self._warehouse = Warehouse(directory)
        rows = self._warehouse.rows
        document: dict[str, Any] = self._warehouse.pipeline.model_dump(by_alias=True)
        document["publish"] = {
            "matched": {"topic": "joined"},
            "by_key": {"topic": "groups", "mode": mode},
            "items": {"topic": "listed"},
        }
        if mode == "changes":
            del document["tables"]["groups"]
        self._pipeline = Pipeline.model_validate(document)
        groups = [dict(zip(self._columns("groups:by_key"), row, strict=True)) for row in rows.groups]
        final = [sent("groups", spelled(row), SECOND) for row in groups]
        self.topics = {
            "joined": self._joined(),
            "groups": final if mode == "append" else list(changes(groups)),
            "listed": list(listed()),
        }
        rows.punctuations.append((PATTERN, "closed"))

    def _columns(self, role: str) -> list[str]:
        return list(self._pipeline.outputs.columns_of(role))

    def _joined(self) -> list[Record]:
        rows = self._warehouse.rows
        results = [
            sent("joined", spelled(dict(zip(self._columns("results"), row, strict=True))), FIRST, row[0] % 2)
            for row in rows.results
        ]
        batch = [replace(record, headers=sent("joined", b"", SECOND).headers) for record in results[:3]]
        for text, _ in rows.punctuations:
            [key] = [pattern["equals"] for pattern in json.loads(text).values()]
            batch.append(sent("joined", marked(text), SECOND, key % 2))
        batch += [sent("joined", marked(PATTERN), SECOND, partition, None) for partition in (0, 1)]
        return [*results[3:], *batch, *batch]

    def verify(self, dropped: int = 0, first_batches: dict[str, int] | None = None) -> VerifyReport:
        """Verify all of it, after Kafka has dropped the first records of each partition of the topics."""
        path = self._warehouse.path
        shutil.rmtree(path, ignore_errors=True)
        for table in [table for table in TABLES if table in self._pipeline.outputs.directories.values()]:
            write_table(self._pipeline, path, table, getattr(self._warehouse.rows, table))
        records = [*RECORDS, *PROMISES, *(record for topic in self.topics.values() for record in topic)]
        ranges, batches = to_kafka(records, {**TWO_EACH, **PARTITIONS})
        ranges = [replace(each, first=dropped) if each.topic in self.topics else each for each in ranges]
        left = [
            batch.filter(
                pc.or_(
                    pc.invert(pc.is_in(batch.column("topic"), pa.array(list(self.topics)))),
                    pc.greater_equal(batch.column("offset"), dropped),
                )
            )
            for batch in batches
        ]
        return verify_records(self._pipeline, ranges, left, path, first_published=first_batches or {})


def changes(groups: list[dict[str, Any]]) -> list[Record]:
    """Records of groups: each final group has an earlier one, too, and the group of key 3 is not final."""
    found = []
    for row in groups:
        found.append(sent("groups", spelled(row | {"bids": 1, "final": False}), FIRST))
        found.append(sent("groups", spelled(row | {"final": True}), SECOND))
    return [*found, sent("groups", spelled(groups[0] | {"item_id": 3, "final": False}), FIRST)]


def listed() -> list[Record]:
    """The rows of the items that are processed."""
    found = []
    for each in locate(RECORDS):
        row = json.loads(each.value or b"{}") if each.topic == "all.items" else {}
        if "listed_at" in row and (each.partition, each.offset) != VIOLATED:
            named = {f"items_{column}": value for column, value in row.items()}
            place = {"items_kafka_partition": each.partition, "items_kafka_offset": each.offset}
            found.append(sent("listed", spelled(named | place), FIRST))
    return found


@pytest.fixture
def final(tmp_path: Path) -> World:
    return World(tmp_path, "append")


@pytest.fixture
def running(tmp_path: Path) -> World:
    return World(tmp_path, "changes")


def topics_of(report: VerifyReport) -> dict[str, TopicComparison]:
    assert not any(table.differs for table in report.tables), report.to_json()
    return {topic.topic: topic for topic in report.published}


def different(report: VerifyReport) -> dict[str, tuple[int, int]]:
    """The numbers of missing and unexpected rows, by the topics that differ."""
    assert report.ok == (not report.breaches and not any(each.differs for each in report.published))
    return {name: (each.missing, each.unexpected) for name, each in topics_of(report).items() if each.differs}


def rendered(report: VerifyReport) -> str:
    shown = StringIO()
    Console(file=shown, width=200).print(render(report))
    return shown.getvalue()


def broken(report: VerifyReport) -> list[tuple[str, int]]:
    return [(breach.rule, breach.times) for breach in report.breaches]


@pytest.mark.parametrize(("mode", "groups"), [("append", 3), ("changes", 4)])
def test_faithful_topics_pass(tmp_path: Path, mode: str, groups: int) -> None:
    """Repeats of a batch are no rows of their own, and neither are earlier states of a group."""
    world = World(tmp_path, mode)
    report = world.verify()
    assert report.ok, report.to_json()
    assert {name: (each.expected, each.actual) for name, each in topics_of(report).items()} == {
        "joined": (12 + 11, 12 + 11),
        "groups": (groups, groups),
        "listed": (5, 5),
    }
    assert [each.records for each in report.published] == [len(each) for each in world.topics.values()]


def test_a_lost_row_is_missing(final: World) -> None:
    for records in final.topics.values():
        records.pop(1)
    report = final.verify()
    assert different(report) == {"joined": (1, 0), "groups": (1, 0), "listed": (1, 0)}
    text = rendered(report)
    assert "all tables equal; topics that differ: joined, groups, listed; all records conserved" in text
    assert "Topic groups, first differences:" in text
    assert "missing item_id=1, bids=3" in text
    told = {each["topic"]: each["missing"] for each in json.loads(report.to_json())["published"]}
    assert told == {"joined": 1, "groups": 1, "listed": 1}


def test_a_lost_change_of_a_group_is_missing(running: World) -> None:
    """Without its last record, an earlier one stands for the group."""
    running.topics["groups"].pop(1)
    report = running.verify()
    assert different(report) == {"groups": (1, 1)}
    assert [each.row["bids"] for each in topics_of(report)["groups"].examples] == [1, 3]


def test_a_lost_punctuation_is_missing(final: World) -> None:
    said = sent("joined", marked('{"items_item_id": {"equals": 7}}'), SECOND, 1)
    final.topics["joined"] = [record for record in final.topics["joined"] if record != said]
    assert different(final.verify()) == {"joined": (1, 0)}


def test_a_pattern_must_be_in_every_partition(final: World) -> None:
    said = sent("joined", marked(PATTERN), SECOND, 1, None)
    final.topics["joined"] = [record for record in final.topics["joined"] if record != said]
    report = final.verify()
    assert different(report) == {}
    assert broken(report) == [("topic joined: a pattern that a partition lacks", 1)]


def of_another_checkpoint(record: Record) -> Record:
    return replace(record, headers=())


def without_a_value(record: Record) -> Record:
    return replace(record, value=None)


def with_another_member(record: Record) -> Record:
    return replace(record, value=(record.value or b"")[:-1] + b', "more": 1}')


def of_another_batch(record: Record) -> Record:
    return sent(record.topic, record.value, 7, record.partition)


def of_nobody(record: Record) -> Record:
    return replace(record, value=b"hello")


def of_a_stream(record: Record) -> Record:
    """A punctuation on a column that no result has; other topics have no punctuation."""
    return sent(record.topic, marked('{"item_id": {"equals": 1}}'), FIRST, record.partition)


FOREIGN = [
    of_another_checkpoint,
    without_a_value,
    with_another_member,
    of_another_batch,
    of_nobody,
    of_a_stream,
]


def test_foreign_records_are_unexpected(final: World) -> None:
    """Rows of two batches are two rows, though they are equal."""
    for topic in ("joined", "listed"):
        records = final.topics[topic]
        final.topics[topic] = [*(harm(records[0]) for harm in FOREIGN), *records]
    report = final.verify()
    assert different(report) == {"joined": (0, len(FOREIGN)), "listed": (0, len(FOREIGN))}
    assert [len(each.examples) for each in report.published] == [len(FOREIGN), 0, len(FOREIGN)]


def changed(records: list[Record], old: bytes, new: bytes, which: int = 0) -> None:
    """Change a value of the first record that has it, or of the one that `which` counts."""
    places = [number for number, record in enumerate(records) if old in (record.value or b"")]
    wrong = records[places[which]]
    records[places[which]] = replace(wrong, value=(wrong.value or b"").replace(old, new))


def test_a_wrong_value_is_found(final: World) -> None:
    """The row is missing, and another one is there."""
    for which, old, new in (
        (0, b'"bids_price": 1.0', b'"bids_price": 2.0'),
        (1, b'"bids_note": "bid', b'"bids_note": "Bid'),
        (0, b'"bids_tip": "3.5"', b'"bids_tip": "3.51"'),
        (1, b'"sellers_rating": "-Infinity"', b'"sellers_rating": null'),
    ):
        changed(final.topics["joined"], old, new, which)
    changed(final.topics["groups"], b'"bids": 3', b'"bids": 4')
    changed(final.topics["listed"], b'"items_seller_id": 1', b'"items_seller_id": null')
    report = final.verify()
    assert different(report) == {"joined": (4, 4), "groups": (1, 1), "listed": (1, 1)}, report.to_json()


@pytest.mark.parametrize(("old", "new"), [(b"true", b"false"), (b"false", b"true")])
def test_a_wrong_end_of_a_group_is_found(running: World, old: bytes, new: bytes) -> None:
    changed(running.topics["groups"], b'"final": ' + old, b'"final": ' + new, -1)
    assert different(running.verify()) == {"groups": (1, 1)}


def test_a_group_goes_on_after_its_end(running: World) -> None:
    records = running.topics["groups"]
    records.append(sent("groups", records[1].value, 2))
    records.append(sent("groups", records[0].value, 3))
    report = running.verify()
    assert different(report) == {"groups": (1, 1)}
    assert broken(report)[0] == ("topic groups: a running group that went on after it was final", 2)


def test_a_new_row_may_not_follow_its_punctuation(final: World) -> None:
    """A repeat may, and so may a row that another partition has."""
    late = sent("joined", final.topics["joined"][0].value, SECOND, 1)
    final.topics["joined"] = [*final.topics["joined"][1:], late]
    report = final.verify()
    assert different(report) == {}
    assert broken(report) == [("topic joined: a new row behind a punctuation that matches it", 2)]


def test_a_new_row_may_not_follow_a_pattern(final: World) -> None:
    """The pattern has all keys from 2 on, and the row is of key 3, which nothing names."""
    said = sent("joined", marked('{"items_item_id": {"between": {"from": 2}}}'), FIRST, 1, None)
    final.topics["joined"].insert(0, said)
    report = final.verify()
    assert different(report) == {"joined": (0, 1)}
    assert broken(report) == [("topic joined: a new row behind a punctuation that matches it", 3)]


@pytest.mark.parametrize("mode", ["append", "changes"])
def test_a_topic_that_dropped_records_may_lack_rows(tmp_path: Path, mode: str) -> None:
    """It says so, and what is left must be right."""
    world = World(tmp_path, mode)
    report = world.verify(dropped=2)
    assert report.ok, report.to_json()
    assert {name: each.lacks for name, each in topics_of(report).items()} == {
        "joined": 4,
        "groups": 2,
        "listed": 2,
    }
    assert all(each.actual < each.expected for each in report.published)
    assert "equal, lacks 4 records" in rendered(report)
    assert "Kafka has dropped records of: joined, groups, listed" in rendered(report)
    world.topics["listed"].append(of_another_checkpoint(world.topics["listed"][-1]))
    assert different(world.verify(dropped=2)) == {"listed": (0, 1)}


def test_a_topic_that_came_later_may_lack_rows(final: World) -> None:
    final.topics["listed"].pop(0)
    assert not final.verify().ok
    report = final.verify(first_batches={"listed": 4})
    assert report.ok, report.to_json()
    assert {each.topic: each.first_batch for each in report.published if each.first_batch} == {"listed": 4}


def test_a_topic_that_does_not_exist_has_no_rows(final: World) -> None:
    final.topics["groups"].clear()
    assert different(final.verify()) == {"groups": (3, 0)}
