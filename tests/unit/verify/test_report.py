"""People and programs read the findings of a verification."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from endmark.pipeline.tables import Table
from endmark.verify.report import SkippedOffsets, VerifyReport, render
from support.verify_warehouse import Warehouse


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path)


def rendered(report: VerifyReport, width: int = 120) -> str:
    console = Console(file=StringIO(), width=width)
    console.print(render(report))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


def test_the_report_reads_well(warehouse: Warehouse) -> None:
    """A person sees counts, verdict and, when something is wrong, the first differences."""
    good = rendered(warehouse.verify())
    assert "Everything adds up. 38 records" in good
    assert "missing=" not in good
    warehouse.rows.groups.pop()
    warehouse.rows.dead_letters.pop()
    bad = rendered(warehouse.verify())
    assert "This does not add up: tables that differ: groups, dead_letters; records not conserved." in bad
    assert "missing item_id=2, bids=3" in bad


def test_a_small_terminal_shows_every_count(warehouse: Warehouse) -> None:
    """However many topics and reasons there are."""
    report = warehouse.verify()
    topic, *_ = report.topics
    reasons = ("null", "future", "late", "unordered", "closed", "repeated", "unclustered", "idle")
    violations = {reason: 1_234_000 + at for at, reason in enumerate(reasons)}
    wide = topic.model_copy(update={"violations": violations, "filtered": 7_654_321})
    topics = [wide.model_copy(update={"topic": f"a-long-name-of-a-topic-{at}"}) for at in range(4)]
    lines = rendered(report.model_copy(update={"topics": topics}), width=80).splitlines()

    assert sum(line.count("a-long-name") for line in lines) == 4
    rows = {line[:12].strip(): line[12:].split() for line in lines}
    assert rows["filtered"] == ["7,654,321"] * 4
    assert [rows[reason] for reason in reasons] == [[f"{count:,}"] * 4 for count in violations.values()]


def test_gaps_are_named_beside_the_verdict(warehouse: Warehouse) -> None:
    """The tables lack their records, and nothing else in the report shows it."""
    gaps = [SkippedOffsets(topic="bids", partition=1, first=5, end=8)]
    report = warehouse.verify().model_copy(update={"gaps": gaps})

    said = " ".join(rendered(report).split())
    assert "Everything adds up. 38 records" in said
    assert "the job has skipped offsets 5 to 7 of bids/1, which Kafka had dropped" in said


def test_a_table_that_is_not_compared_is_not_called_equal(warehouse: Warehouse) -> None:
    report = warehouse.verify()
    tables = [each.model_copy(update={"compared": each.table != "groups"}) for each in report.tables]
    report = report.model_copy(update={"tables": tables})
    lines = rendered(report).splitlines()

    [row] = [line.split() for line in lines if line.startswith(" groups")]
    assert row == ["groups", "-", "-", "-", "-", "not", "compared"]
    assert "not compared: groups" in "\n".join(lines)
    told = {each["table"]: each["equal"] for each in json.loads(report.to_json())["tables"]}
    assert told == {each.table: None if each.table == "groups" else True for each in tables}
    assert report.ok


def test_a_value_cannot_command_the_terminal(warehouse: Warehouse) -> None:
    """Control characters of a dead letter are shown as escapes, and long values are cut."""
    hostile = b"\x1b[2J\xc2\x9b" + b"x" * 1_000
    warehouse.rows.dead_letters[0] = (*warehouse.rows.dead_letters[0][:5], hostile)
    text = rendered(warehouse.verify())
    assert r"\x1b[2J\x9bxxx" in text
    assert "\x1b" not in text
    assert "x" * 100 not in text.replace("\n", "")


def test_the_report_is_json(warehouse: Warehouse) -> None:
    """Programs get the same figures, verdicts included, with bytes and times as text."""
    warehouse.rows.results.pop()
    warehouse.rows.dead_letters.pop(1)
    document = json.loads(warehouse.verify().to_json())
    assert (document["ok"], document["equal"], document["conserved"]) == (False, False, False)
    assert [table["equal"] for table in document["tables"]] == [False, True, False, True, True]
    assert document["tables"][2]["examples"][0]["row"]["value"] == "\\xff\x00"
    assert document["tables"][0]["examples"][0]["row"]["bids_bid_at"] == "2026-01-01T00:00:02.000000Z"


def test_tables_are_told_by_their_names_in_the_file(warehouse: Warehouse) -> None:
    """In the report, in its JSON, and in what people read."""
    tables = {"matches": warehouse.pipeline.tables["results"], "by_key": Table()}
    warehouse.pipeline = warehouse.pipeline.model_copy(update={"tables": tables})
    names = [*tables, "dead_letters", "violations", "punctuations"]
    report = warehouse.check()
    assert [table.table for table in report.tables] == names
    assert [table["table"] for table in json.loads(report.to_json())["tables"]] == names
    text = rendered(report)
    assert "tables that differ: matches, by_key, dead_letters" in text
    assert "Table by_key, first differences:" in text
