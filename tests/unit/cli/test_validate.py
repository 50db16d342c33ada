"""What is said of state and its bounds: by a refusal, and by `validate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from endmark.cli.app import app
from endmark.errors import ConfigError
from endmark.pipeline.boundedness import require_bounded, states
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION
from endmark.types import JoinType
from support.verify_keys import COMPOSITE, KEY_KINDS
from support.verify_world import make_pipeline

ENVIRONMENT = {"ENDMARK_RELATION_URL": "sqlite://"}


@pytest.mark.parametrize("punctuated", [(True, False), (False, True)])
@pytest.mark.parametrize("windows", [(5, 5), (0, None), (None, 0), (None, None)])
@pytest.mark.parametrize("kind", JoinType)
def test_each_mend_mends_everything(
    kind: JoinType, windows: tuple[int | None, int | None], punctuated: tuple[bool, bool]
) -> None:
    """Whoever is refused and does one of the things the message names is not refused again."""
    pipeline = make_pipeline(kind=kind, windows=windows, punctuated=punctuated)
    if all(state.bounded_by for state in states(pipeline) if state.holds != "closed keys"):
        require_bounded(pipeline)
        return
    with pytest.raises(ConfigError) as caught:
        require_bounded(pipeline)
    mends = str(caught.value).rpartition("; ")[2].replace(", or ", ", ").split(", ")

    for mend in mends:
        if mend == "set steps.matched.window.items":
            mended = make_pipeline(kind=kind, windows=(1, windows[1]), punctuated=punctuated)
        elif mend == "set steps.matched.window.known":
            mended = make_pipeline(kind=kind, windows=(windows[0], 1), punctuated=punctuated)
        elif mend == "accept it with unbounded_state: allow":
            mended = pipeline.model_copy(update={"unbounded_state": "allow"})
        else:
            silent = "items" if punctuated[1] else "bids"
            assert mend == f"declare streams.{silent}.punctuated_on: [item_id]"
            mended = make_pipeline(kind=kind, windows=windows)
        require_bounded(mended)
    assert len(mends) >= 2


def test_refusal_says_what_and_why() -> None:
    """Rows that neither time nor the other stream frees are named with both; groups with who never closes."""
    with pytest.raises(ConfigError) as caught:
        require_bounded(make_pipeline(windows=(None, 5), punctuated=(True, False)))
    assert str(caught.value) == (
        "items rows: unbounded, since steps.matched.window.items is not set and bids has no punctuations; "
        "by_key groups: unbounded, since items rows of closed keys stay for ever; "
        "set steps.matched.window.items, declare streams.bids.punctuated_on: [item_id], "
        "or accept it with unbounded_state: allow"
    )

    with pytest.raises(ConfigError) as caught:
        require_bounded(make_pipeline(kind=JoinType.FULL, punctuated=(False, True), keys=COMPOSITE))
    assert str(caught.value) == (
        "by_key groups: unbounded, since items rows are results even without a partner and items has no "
        "punctuations; declare streams.items.punctuated_on: [item_id, lot], "
        "or accept it with unbounded_state: allow"
    )


def test_punctuations_beside_the_key_bound_nothing() -> None:
    """A stream that has such alone closes no key, and is told to declare the key too."""
    with pytest.raises(ConfigError) as caught:
        require_bounded(make_pipeline(windows=(None, 5), punctuated=(True, False), wider=("seller_id",)))
    assert str(caught.value) == (
        "items rows: unbounded, since steps.matched.window.items is not set and bids has punctuations on "
        "seller_id alone, which close no key; by_key groups: unbounded, since items rows of closed keys "
        "stay for ever; "
        "set steps.matched.window.items, declare streams.bids.punctuated_on: [item_id, seller_id], "
        "or accept it with unbounded_state: allow"
    )
    with pytest.raises(ValueError, match="no stream is punctuated on 'item_id'"):
        make_pipeline(punctuated=(False, False), wider=("seller_id",))


@pytest.mark.parametrize(
    ("keys", "size"),
    [
        ("long", "in ranges of 24 bytes"),
        ("boolean", "in ranges of 24 bytes"),
        ("string", "16 bytes each and their item_id"),
        ("decimal", "16 bytes each and their item_id"),
        ("composite", "16 bytes each and their item_id, lot"),
    ],
)
def test_closed_keys_are_noted_and_not_refused(keys: str, size: str) -> None:
    """They grow with the punctuations of a stream that has some."""
    pipeline = make_pipeline(keys=KEY_KINDS[keys], punctuated=(True, False))
    require_bounded(pipeline)

    assert [str(state) for state in states(pipeline) if state.holds == "closed keys"] == [
        f"items closed keys: unbounded, remembered until a pattern holds them, {size}"
    ]


def file_of(tmp_path: Path, **changed: Any) -> Path:
    """The auction where bids have no punctuations and items no window."""
    document: dict[str, Any] = load(AUCTION, ENVIRONMENT).model_dump(mode="json", exclude_defaults=True)
    document["steps"]["matched"]["window"] = {"known": "1500ms"}
    document["steps"]["known"]["lookup"]["time_per_batch"] = "200ms"
    del document["streams"]["bids"]["punctuated_on"]
    file = tmp_path / "pipeline.yaml"
    file.write_text(json.dumps(document | changed))
    return file


def test_no_file_with_unbounded_state_is_loaded(tmp_path: Path) -> None:
    """Whatever reads a pipeline file refuses it, and names it; the file may say that it is meant."""
    with pytest.raises(
        ConfigError, match=r"pipeline\.yaml: items rows: unbounded, since steps\.matched\.window\.items"
    ):
        load(file_of(tmp_path), ENVIRONMENT)
    with pytest.raises(ConfigError, match="unbounded_state: Input should be 'refuse' or 'allow'"):
        load(file_of(tmp_path, unbounded_state="maybe"), ENVIRONMENT)

    assert load(file_of(tmp_path, unbounded_state="allow"), ENVIRONMENT).unbounded_state == "allow"


def test_validate_prints_a_line_per_state(tmp_path: Path) -> None:
    """Bounds for each; what is unbounded and accepted is said too."""
    told = CliRunner().invoke(app, ["validate"], env=ENVIRONMENT).stdout.splitlines()[1:]
    assert told == [
        "items rows: bounded by window 1 minute after bids' progress and by bids' punctuations on item_id",
        "bids rows: bounded by window 10 s after items' progress and by items' punctuations on item_id",
        (
            "by_item groups: bounded by items' and bids' punctuations on item_id, "
            "by items' punctuations on item_id with window 1 minute after bids' progress "
            "and by bids' punctuations on item_id with window 10 s after items' progress"
        ),
        "items closed keys: unbounded, remembered until a pattern holds them, in ranges of 24 bytes",
        "bids closed keys: unbounded, remembered until a pattern holds them, in ranges of 24 bytes",
    ]

    file = file_of(tmp_path, unbounded_state="allow")
    told = CliRunner().invoke(app, ["validate", str(file)], env=ENVIRONMENT).stdout.splitlines()[1:]
    assert told == [
        "items rows: unbounded, since steps.matched.window.items is not set and bids has no punctuations",
        "bids rows: bounded by window 1.5 s after items' progress and by items' punctuations on item_id",
        "by_item groups: unbounded, since items rows of closed keys stay for ever",
        "items closed keys: unbounded, remembered until a pattern holds them, in ranges of 24 bytes",
    ]


def test_validate_tells_programs_the_same(tmp_path: Path) -> None:
    """One JSON object; a bound says which streams close the key, and whose progress leaves which window."""
    file = file_of(tmp_path, unbounded_state="allow")
    printed = CliRunner().invoke(app, ["validate", str(file), "--json"], env=ENVIRONMENT).stdout
    by_time = {"closed_by": [], "means": [], "on": [], "window_seconds": 1.5, "progress_of": ["items"]}
    by_key = {
        "closed_by": ["items"],
        "means": ["punctuations"],
        "on": ["item_id"],
        "window_seconds": None,
        "progress_of": [],
    }
    why = "since steps.matched.window.items is not set and bids has no punctuations"

    told = json.loads(printed)
    assert told["valid"] is True
    assert told["state"][:2] == [
        {"input": "items", "holds": "rows", "bounded_by": [], "note": why, "declared": False},
        {
            "input": "bids",
            "holds": "rows",
            "bounded_by": [by_time, by_key],
            "note": None,
            "declared": False,
        },
    ]
    assert [(state["input"], state["holds"]) for state in told["state"][2:]] == [
        ("by_item", "groups"),
        ("items", "closed keys"),
    ]
