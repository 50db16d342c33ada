"""State of an operator on frames is not gone on with by another one."""

from __future__ import annotations

import pytest

from endmark.errors import ConfigError
from endmark.spark.bucket.made import require_same

WAS = {"on": "shop string, day date32[day]", "preset": "auto"}


def test_equal_arguments_go_on() -> None:
    require_same(WAS, dict(WAS))


def test_state_that_says_nothing_goes_on() -> None:
    """As that of earlier versions, or of an argument that is new."""
    require_same({}, WAS)
    require_same(WAS, WAS | {"memory": "none"})


def test_all_that_differs_is_said() -> None:
    now = {"on": "shop int64, day date32[day]", "preset": "pjoin"}

    with pytest.raises(ConfigError) as refused:
        require_same(WAS, now)

    assert str(refused.value) == (
        "the checkpoint was made with other arguments: on was shop string, day date32[day], is shop int64, "
        "day date32[day], preset was auto, is pjoin; go back to them, or start with a new checkpoint"
    )
