"""A database that is away for half a minute, within the deadline of a pipeline that names none."""

from __future__ import annotations

from pathlib import Path

from support.relation_outages import survive_kill_and_hang


def test_half_a_minute_costs_time_only(tmp_path: Path) -> None:
    survive_kill_and_hang(tmp_path, away=30)
