"""A Python worker is silent when Spark leaves it, and collects garbage of later tasks only."""

from __future__ import annotations

import gc

import pytest

from endmark.spark.processes.daemon import frozen_after_first, silent_when_left


@pytest.mark.parametrize("left", [BrokenPipeError, ConnectionResetError])
def test_nothing_when_the_jvm_hung_up(left: type[OSError]) -> None:
    """The worker ends, and does not wait for other work."""

    def work(_: object, __: bool) -> int:
        raise left

    assert silent_when_left(work)(None, True) == 1


def test_all_else_is_said() -> None:
    def work(_: object, __: bool) -> int:
        raise FileNotFoundError

    with pytest.raises(FileNotFoundError):
        silent_when_left(work)(None, True)
    assert silent_when_left(lambda *_: 0)(None, True) == 0


def test_what_the_first_task_leaves_is_frozen() -> None:
    """Collections after later tasks look at nothing that was there before."""
    frozen, before = frozen_after_first(lambda: 0), gc.get_freeze_count()
    try:
        assert frozen() == 0
        kept = gc.get_freeze_count()
        assert frozen() == 0
        assert before < kept >= gc.get_freeze_count()
    finally:
        gc.unfreeze()
