"""The Delta tables of a job, when they are another's or older than the program."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from endmark.errors import ConfigError
from endmark.spark.packing.channels import VIOLATION_SCHEMA
from endmark.spark.tables import Target, prepare
from support.verify_warehouse import Warehouse

# Of the first version.
COLUMNS = ["topic", "partition", "offset", "reason", "event_time", "record"]


def test_a_table_gets_the_columns_it_lacks(tmp_path: Path) -> None:
    """Older rows have none of their values; the rest of the table stays, whose it is too."""
    first = Target("violations", tmp_path / "t", pa.schema([VIOLATION_SCHEMA.field(0)]))
    prepare([first], "one")
    write_deltalake(str(first.path), pa.table({"topic": ["t"]}), mode="append")

    for _ in range(2):
        prepare([Target("violations", first.path, VIOLATION_SCHEMA)], "one")

    table = DeltaTable(str(first.path))
    assert pa.schema(table.schema().to_arrow()).names == VIOLATION_SCHEMA.names
    assert table.to_pyarrow_table().to_pylist() == [dict.fromkeys(VIOLATION_SCHEMA.names) | {"topic": "t"}]
    with pytest.raises(ConfigError, match="written from another checkpoint"):
        prepare([first], "another")


def test_rows_that_could_not_say_what_they_broke_are_taken_as_they_are(tmp_path: Path) -> None:
    """Only where the table is older than those columns: else a violation must name its promise."""
    warehouse = Warehouse(tmp_path)
    unsaid = [(*row[:6], None, None, None) for row in warehouse.rows.violations]
    older = pa.schema([VIOLATION_SCHEMA.field(name) for name in COLUMNS])
    target = Target("violations", warehouse.path / "violations", older)
    right = list(warehouse.rows.violations)
    warehouse.rows.violations = []
    assert not warehouse.verify().ok

    prepare([target], "one")
    rows = [dict(zip(COLUMNS, row, strict=False)) for row in right[:2]]
    write_deltalake(str(target.path), pa.Table.from_pylist(rows, older), mode="append")
    prepare([Target("violations", target.path, VIOLATION_SCHEMA)], "one")
    rest = [dict(zip(VIOLATION_SCHEMA.names, row, strict=True)) for row in right[2:]]
    write_deltalake(str(target.path), pa.Table.from_pylist(rest, VIOLATION_SCHEMA), mode="append")
    assert warehouse.check().ok

    warehouse.rows.violations = unsaid
    assert [table.table for table in warehouse.verify().tables if not table.equal] == ["violations"]
