"""State of an operator on frames is not gone on with by another one."""

from __future__ import annotations

import pytest

from endmark.engine.bucket.plan import require_same
from endmark.errors import ConfigError

WAS = {"on": "shop string, day date32[day]", "preset": "auto"}


def test_equal_arguments_go_on() -> None:
    require_same(WAS, dict(WAS))


def test_all_that_differs_is_said() -> None:
    now = {"on": "shop int64, day date32[day]", "preset": "pjoin", "memory": "1000"}

    with pytest.raises(ConfigError) as refused:
        require_same(WAS, now)

    assert str(refused.value) == (
        "the checkpoint was made with other arguments: memory was left out, is 1000, on was shop string, day "
        "date32[day], is shop int64, day date32[day], preset was auto, is pjoin; go back to them, or start "
        "with a new checkpoint"
    )
