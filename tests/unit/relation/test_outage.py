"""A short outage of a database in the middle of a batch; `tests/faults/test_long_outage.py` makes it long."""

from __future__ import annotations

from pathlib import Path

from support.relation_outages import survive_kill_and_hang


def test_a_few_seconds_cost_time_only(tmp_path: Path) -> None:
    """The outage is longer than one statement may take, so the reader of the hanging server tries again."""
    survive_kill_and_hang(tmp_path, away=8, retry="30s")
