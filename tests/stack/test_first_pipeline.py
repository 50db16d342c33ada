"""The tutorial of docs/first-pipeline.md: its commands, on a broker, a database and a job of their own."""

from __future__ import annotations

import os
import sys
from decimal import Decimal
from pathlib import Path

from deltalake import DeltaTable

from support.tutorial import Step, follow


def test_the_tutorial_ends_with_rows_in_delta(tmp_path: Path, jars: list[Path], free_port: int) -> None:
    """Each order is there with its payment and its customer, if it has one."""
    assert jars
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ENDMARK_")}
    environment |= {name: value for name, value in os.environ.items() if name == "ENDMARK_HOME"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    steps: list[Step] = []

    follow(tmp_path, environment, free_port, steps.append)

    rows = DeltaTable(tmp_path / "var" / "shop" / "warehouse" / "results").to_pyarrow_table().to_pylist()
    kept = tmp_path / "var" / "broker"
    assert kept.stat().st_mode & 0o777 == 0o700
    said = {step.commands.split()[1]: step.said for step in steps}
    assert "lookup of customers by customer_id" in said["init"]
    assert "pipeline shop is valid" in said["validate"]
    assert "shop is done" in steps[-1].said
    assert "behind: 0 records" in steps[-1].said
    found = {row["orders_order_id"]: (row["payments_amount"], row["customers_name"]) for row in rows}
    names = [None, "Ann", "Bo"]
    assert found == {number: (Decimal(f"{number}.50"), names[number % 3]) for number in range(60)}
