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


SELLERS = {"url": "sqlite://", "table": "sellers", "key": "seller_id", "columns": {"seller_id": "long"}}
FURTHER: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"join": ["paid", "tags"], "on": "order_id", "window": "1m"}, {}),
    ({"from": "paid", "lookup": {"relation": "sellers", "key": "orders.seller_id"}}, {"sellers": SELLERS}),
]


@pytest.mark.parametrize(("further", "relations"), FURTHER)
def test_no_key_is_forgotten_before_a_stage_on_the_same_key(
    further: dict[str, Any], relations: dict[str, Any]
) -> None:
    """The further stage remembers the keys that the first join announces. So a row that uses a forgotten key
    again gave a result of the first join which the further stage could not take. The job stopped."""
    plain = {
        "columns": {"order_id": "long", "seller_id": "long", "at": "timestamp"},
        "event_time": {"column": "at"},
        "punctuated_on": "order_id",
    }
    names = ["orders", "payments", *(name for name in further.get("join", []) if name != "paid")]
    document: dict[str, Any] = {
        "name": "small",
        "streams": {name: {"topic": name, **plain} for name in names},
        "relations": relations,
        "steps": {
            "paid": {"join": ["orders", "payments"], "on": "order_id", "window": "1m"},
            "further": further,
        },
        "tables": {"further": {}},
    }
    assert len(Pipeline.model_validate(document).stages) == 2
    document["streams"]["orders"]["forget_keys_after"] = "1m"

    with pytest.raises(
        ValueError, match=r"streams.orders.forget_keys_after: rows of paid go on into a stage on the same key"
    ):
        Pipeline.model_validate(document)
