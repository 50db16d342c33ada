"""A Python worker is silent when Spark leaves it."""

from __future__ import annotations

import pytest

from endmark.spark.daemon import silent_when_left


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
