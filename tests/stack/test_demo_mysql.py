"""The demo with its master table in MariaDB; apart from the one on SQLite, which `make test` runs."""

from __future__ import annotations

from pathlib import Path

from support.demo import require_equal_tables_and_waiting_rows


def test_demo(tmp_path: Path) -> None:
    require_equal_tables_and_waiting_rows(tmp_path, "mysql")
