"""The newcomer's path: one command, the whole warehouse."""

from __future__ import annotations

from pathlib import Path

from support.demo import require_equal_tables_and_waiting_rows


def test_demo(tmp_path: Path) -> None:
    require_equal_tables_and_waiting_rows(tmp_path, "sqlite", stay=True)
