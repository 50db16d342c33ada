"""Tests of `forget_keys_after`: which streams may have it, and from which time on."""

from __future__ import annotations

from typing import Any

import pytest

from endmark.pipeline import Pipeline
from endmark.pipeline.boundedness import states
from endmark.types import JoinType
from support.verify_world import make_pipeline


def pipeline(
    after: str = "60s",
    windows: tuple[int | None, int | None] = (60, 10),
    punctuated: tuple[bool, bool] = (True, True),
    **more: Any,
) -> Pipeline:
    """The small pipeline, whose items forget closed keys."""
    declared: tuple[dict[str, Any], dict[str, Any]] = ({"forget_keys_after": after}, {})
    return make_pipeline(windows=windows, punctuated=punctuated, declared=declared, **more)


def test_forgetting_bounds_closed_keys() -> None:
    """Closed keys of the other stream stay."""
    told = [str(state) for state in states(pipeline()) if state.holds == "closed keys"]
    assert told == [
        "items closed keys: bounded by forgetting them 1 minute after items' and bids' progress",
        "bids closed keys: unbounded, remembered until a pattern holds them, in ranges of 24 bytes",
    ]


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"after": "59s"}, "items.forget_keys_after: 59 s is less than the window of items, 1 minute"),
        ({"windows": (60, None)}, "rows of bids would stay for ever once their key is forgotten"),
        ({"windows": (None, 10)}, "rows of items would stay for ever once their key is forgotten"),
        ({"punctuated": (False, True)}, "items closes no key; leave it out"),
        ({"kind": JoinType.RIGHT}, "rows of bids are results once items has closed their key"),
        ({"kind": JoinType.FULL}, "rows of bids are results once items has closed their key"),
        ({"join": {"preset": "mjoin"}, "windows": (None, None)}, "preset mjoin announces a key once all"),
    ],
)
def test_what_would_lose_results_is_refused(changed: dict[str, Any], error: str) -> None:
    """Each error says what to change."""
    with pytest.raises(ValueError, match=error):
        pipeline(**changed)
    assert pipeline(kind=JoinType.LEFT).streams["items"].forget_keys_after is not None
