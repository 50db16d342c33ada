"""Turns of knobs in the ops database."""

from __future__ import annotations

import pytest

from endmark.control.ops_database import turns
from endmark.control.ops_database.database import OpsDatabase


def test_old_turns_are_removed_but_for_values_that_hold(
    ops: OpsDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A knob that was turned once keeps its value. A program that turned another one 100,000 times made each
    answer about knobs take 3.5 s."""
    monkeypatch.setattr(turns, "KEPT_TURNS", 3)
    turned = [("batch.records", 1, None), ("batch.every", 0, None), ("batch.every", 1, "too often")]
    turned += [("batch.records", value, None) for value in range(2, 6)]
    for offset, (name, value, refused) in enumerate(turned):
        turn = {"partition": 0, "offset": 10 * offset, "set_at": 1.0, "by": "ann", "why": None}
        for pipeline in ("auction", "sales") if offset == 0 else ("auction",):
            rows = [{**turn, "name": name, "value": value, "refused": refused}]
            ops.turns.record(pipeline, offset, rows, {})

    kept = [(turn["name"], turn["before"], turn["value"]) for turn in ops.turns.of("auction")]
    assert kept == [
        ("batch.every", None, 0),
        ("batch.records", 2, 3),
        ("batch.records", 3, 4),
        ("batch.records", 4, 5),
    ]
    assert len(ops.turns.of("sales")) == 1


def test_turns_follow_a_pipeline_that_gets_another_name(server_ops: OpsDatabase) -> None:
    """They are in the state of its checkpoint, too. The new name had turns of another checkpoint."""

    def turn(pipeline: str, value: int) -> None:
        row = {"partition": 0, "offset": value, "set_at": 1.0, "by": "ann", "name": "batch.records"}
        server_ops.turns.record(
            pipeline, value, [{**row, "value": value, "refused": None, "why": "slow"}], {}
        )

    server_ops.runs.start("run-1", "sale", "other", "/other")
    server_ops.runs.set_state("run-1", "stopped")
    server_ops.runs.start("run-2", "auction", "app", "/checkpoint")
    turn("sale", 3)
    turn("auction", 5)
    turn("auction", 7)
    before = server_ops.turns.of("auction")
    for number in (3, 4):
        server_ops.runs.start(f"run-{number}", "sale", "app", "/checkpoint")
        after = server_ops.turns.of("sale")
        assert [{**found, "pipeline": "auction"} for found in after] == before
        turn("auction", 9)  # nobody's by now

    assert [found["value"] for found in before] == [5, 7]
