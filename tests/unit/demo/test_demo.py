"""When the demo takes its job for done."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from endmark.control.database import OpsDatabase
from endmark.demo.choreography import caught_up


def test_a_batch_that_found_the_topics_empty_has_not_caught_up(tmp_path: Path) -> None:
    with closing(OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")) as ops:
        ops.record_batch("auction", 0, "run", {}, {})

        assert not caught_up(ops, "auction", "127.0.0.1:1")
