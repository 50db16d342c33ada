"""A faithful warehouse passes, and any single row removed, doubled, changed or misplaced is found."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from endmark.embedded.broker import Broker
from endmark.verify.report import VerifyReport
from endmark.verify.verification import verify
from support.verify_places import write_table
from support.verify_warehouse import RECORDS, TABLES, Warehouse
from support.verify_world import PARTITIONS, Row, raw


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path)


CHANGES = {
    "results": (9, "another note"),
    "groups": (2, 99.5),
    "dead_letters": (5, b"other bytes"),
    "violations": (3, "no reason"),
    "punctuations": (0, '{"items_item_id": {"equals": 99}}'),
}


def removed(_table: str, rows: list[Row]) -> tuple[int, int]:
    rows.pop()
    return 1, 0


def doubled(_table: str, rows: list[Row]) -> tuple[int, int]:
    rows.append(rows[0])
    return 0, 1


def changed(table: str, rows: list[Row]) -> tuple[int, int]:
    place, value = CHANGES[table]
    rows[1] = (*rows[1][:place], value, *rows[1][place + 1 :])
    return 1, 1


def test_a_table_that_came_later_may_lack_rows(warehouse: Warehouse) -> None:
    """It says since which batch it is there. Each of its rows must be right."""
    warehouse.rows.results.pop()
    assert not warehouse.verify().ok
    table = DeltaTable(warehouse.path / "results")
    table.alter.set_table_properties({"endmark.sinceBatch": "7"}, raise_if_not_exists=False)

    report = warehouse.check()
    assert report.ok, report.to_json()
    assert {table.table: table.first_batch for table in report.tables if table.first_batch} == {"results": 7}
    write_table(warehouse.pipeline, warehouse.path, "results", warehouse.rows.results[:1])
    report = warehouse.check()
    assert [table.unexpected for table in report.tables if table.table == "results"] == [1]


def test_a_faithful_warehouse_passes(warehouse: Warehouse) -> None:
    """All tables as the definitions have them: equal, conserved, and counted as by hand."""
    report = warehouse.verify()
    assert report.ok
    assert report.equal
    assert report.conserved
    assert [topic.model_dump() for topic in report.topics] == [
        {
            "topic": "all.items",
            "records": 12,
            "rows": 6,
            "punctuations": 4,
            "dead_letters": 1,
            "violations": {"closed": 0, "late": 1},
            "processed": 10,
            "filtered": 0,
            "skipped": 1,
            "lookup_missed": 0,
        },
        {
            "topic": "all.bids",
            "records": 26,
            "rows": 20,
            "punctuations": 4,
            "dead_letters": 2,
            "violations": {"closed": 2, "late": 1},
            "processed": 21,
            "filtered": 0,
            "skipped": 0,
            "lookup_missed": 4,
        },
    ]
    assert {table.table: (table.expected, table.actual) for table in report.tables} == {
        "results": (12, 12),
        "groups": (3, 3),
        "dead_letters": (3, 3),
        "violations": (4, 4),
        "punctuations": (10, 10),
    }


def test_a_real_broker_gives_the_same(warehouse: Warehouse, broker: Broker) -> None:
    """`verify` reads the records from Kafka itself, and none beyond `until`."""
    expected = warehouse.verify()
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in ("all.items", "all.bids")])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for record in [*RECORDS, raw("bids", b"not read by the job")]:
        producer.send(record.topic, record.value, key=b"k", partition=record.partition)
    producer.close()
    until = {"all.bids": {0: 12}}
    found = verify(warehouse.pipeline, broker.bootstrap, warehouse.path, until)
    assert found.ok
    assert found.topics == expected.topics
    behind = verify(warehouse.pipeline, broker.bootstrap, warehouse.path)
    assert [table.missing for table in behind.tables] == [0, 0, 1, 0, 0]
    assert not behind.conserved


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("harm", [removed, doubled, changed])
def test_one_wrong_row_is_found(
    warehouse: Warehouse, table: str, harm: Callable[[str, list[Row]], tuple[int, int]]
) -> None:
    """Exactly the harmed table differs, by exactly that row, which is among the examples."""
    missing, unexpected = harm(table, getattr(warehouse.rows, table))
    report = warehouse.verify()
    assert not report.ok
    for compared in report.tables:
        expected = (missing, unexpected) if compared.table == table else (0, 0)
        assert (compared.missing, compared.unexpected) == expected, compared.table
        assert len(compared.examples) == sum(expected)


def test_missing_tables_have_no_rows(warehouse: Warehouse) -> None:
    """Nothing written yet is a difference where rows are due, never an error."""
    report = warehouse.check()
    missing = [(0, 12), (0, 3), (0, 3), (0, 4), (0, 10)]
    assert [(table.actual, table.missing) for table in report.tables] == missing
    assert [breach.times for breach in report.breaches] == [1, 1]


def widened(table: pa.Table) -> pa.Table:
    return table.append_column("more", pa.array([0] * len(table)))


def narrowed(table: pa.Table) -> pa.Table:
    return table.set_column(0, "item_id", table["item_id"].cast(pa.int32()))


@pytest.mark.parametrize("harm", [widened, narrowed])
def test_a_table_with_other_columns_is_a_difference(
    warehouse: Warehouse, harm: Callable[[pa.Table], pa.Table]
) -> None:
    """Names and types of columns are part of the result; the report says which they are."""
    report = rewritten(warehouse, harm)
    groups = report.tables[1]
    assert groups.differs
    assert not report.ok
    assert groups.problem is not None
    assert "but should have item_id long, bids long, best double" in groups.problem
    assert groups.problem.startswith("has the columns item_id ")


def test_a_table_may_have_another_order_of_columns(warehouse: Warehouse) -> None:
    """A column that the pipeline file got later is the last one of a table, wherever the file has it."""
    report = rewritten(warehouse, lambda table: table.select(reversed(table.column_names)))
    assert report.ok, report.to_json()


def rewritten(warehouse: Warehouse, change: Callable[[pa.Table], pa.Table]) -> VerifyReport:
    """Verify after a change of the table of groups."""
    warehouse.verify()
    path = str(warehouse.path / "groups")
    table = change(DeltaTable(path).to_pyarrow_table())
    shutil.rmtree(path)  # since overwriting would keep the order of columns
    write_deltalake(path, table)
    return warehouse.check()
