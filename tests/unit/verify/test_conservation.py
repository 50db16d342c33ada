"""Every way in which tables lose, double or make up records is a breach, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from endmark.types import JoinType
from endmark.verify.report import VerifyReport
from support.verify_warehouse import Warehouse


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path)


def rules(report: VerifyReport) -> set[str]:
    return {breach.rule for breach in report.breaches}


def test_a_coordinate_in_two_tables_is_a_breach(warehouse: Warehouse) -> None:
    """A record that is both a dead letter and a violation is not conserved."""
    topic, partition, offset, *_ = warehouse.rows.dead_letters[0]
    moment = warehouse.rows.violations[0][4]
    warehouse.rows.violations.append((topic, partition, offset, "late", moment, "{}", None, None, None))
    report = warehouse.verify()
    assert "kept twice among dead letters and violations" in rules(report)
    (twice, *_) = report.breaches
    assert twice.examples == [
        {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "tables": ["dead_letters", "violations"],
        }
    ]


def test_a_coordinate_that_was_never_read_is_a_breach(warehouse: Warehouse) -> None:
    """A rejected record must be one of those that Kafka holds in the verified range."""
    row = warehouse.rows.dead_letters[0]
    warehouse.rows.dead_letters[0] = (row[0], row[1], 1_000, *row[3:])
    report = warehouse.verify()
    assert rules(report) == {"a dead letter or violation that was never read"}
    assert report.breaches[0].examples[0]["offset"] == 1_000


def test_a_lost_record_is_a_breach(warehouse: Warehouse) -> None:
    """A rejected record that no table keeps leaves its topic's sum short."""
    topic = warehouse.rows.dead_letters.pop()[0]
    report = warehouse.verify()
    assert rules(report) == {f"topic {topic}: records do not add up to processed and rejected ones"}
    found = report.breaches[0].examples[0]
    assert found["records"] == found["processed"] + found["rejected"] + 1


def test_a_pair_that_joined_twice_is_a_breach(warehouse: Warehouse) -> None:
    """The same two records may not make two results, not even with different content."""
    row = warehouse.rows.results[0]
    warehouse.rows.results.append((*row[:9], "another note", *row[10:]))
    assert rules(warehouse.verify()) == {"the same records made too many results"}


@pytest.mark.parametrize("fate", ["closed", "late", "not_utf8", "punctuation", "nowhere"])
def test_a_result_of_an_unprocessed_record_is_a_breach(warehouse: Warehouse, fate: str) -> None:
    """Results come of processed rows alone."""
    rejected = [*warehouse.rows.dead_letters, *warehouse.rows.violations]
    places = {row[3]: row[1:3] for row in rejected if row[0] == "all.bids"}
    places |= {"punctuation": (1, 8), "nowhere": (1, 500)}
    row = warehouse.rows.results[0]
    warehouse.rows.results.append((*row[:-2], *places[fate]))
    found = rules(warehouse.verify())
    assert found == {"topic all.bids: a result of a record that was not processed"}


@pytest.mark.parametrize("kind", JoinType)
def test_a_faithful_warehouse_of_any_join_passes(tmp_path: Path, kind: JoinType) -> None:
    """Rows without a partner and rows of one side alone are no breach."""
    warehouse = Warehouse(tmp_path, kind)
    partners = [(row[0], row[5] if len(row) == 17 else 0) for row in warehouse.rows.results]
    assert any(None in pair for pair in partners) == (kind not in (JoinType.INNER, JoinType.SEMI))
    assert warehouse.verify().ok


def test_a_row_with_and_without_a_partner_is_a_breach(tmp_path: Path) -> None:
    """A row that has a partner is not also put out beside nulls, nor twice beside nulls."""
    warehouse = Warehouse(tmp_path, JoinType.FULL)
    joined = next(row for row in warehouse.rows.results if None not in (row[0], row[5]))
    warehouse.rows.results.append((*joined[:5], *[None] * 12))
    assert rules(warehouse.verify()) == {"topic all.items: a record both with a partner and without one"}
    warehouse.rows.results[-1] = (*[None] * 5, *joined[5:])
    assert rules(warehouse.verify()) == {"topic all.bids: a record both with a partner and without one"}
    warehouse.rows.results[-1] = next(row for row in warehouse.rows.results if row[5] is None)
    assert rules(warehouse.verify()) == {"the same records made too many results"}


@pytest.mark.parametrize("kind", JoinType)
def test_a_record_with_several_matches_is_several_rows(tmp_path: Path, kind: JoinType) -> None:
    """As many results as matches are no breach, one more is."""
    warehouse = Warehouse(tmp_path, kind, cardinality="many_to_many")
    results = warehouse.rows.results
    assert warehouse.verify().ok
    if kind is not JoinType.SEMI:
        assert len({(*row[3:5], *row[-2:]) for row in results}) < len(results)
    results.append(results[0])
    assert rules(warehouse.verify()) == {"the same records made too many results"}


def test_a_row_twice_in_a_semi_join_is_a_breach(tmp_path: Path) -> None:
    """A left row comes once, however many partners it has."""
    warehouse = Warehouse(tmp_path, JoinType.SEMI)
    warehouse.rows.results.append(warehouse.rows.results[0])
    assert rules(warehouse.verify()) == {"the same records made too many results"}
