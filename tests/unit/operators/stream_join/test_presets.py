"""Presets of the stream join: what each refuses, what bounds its state, and that a checkpoint keeps one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from endmark.control.tuning.knobs import filed, steps_of, turned
from endmark.driver.checkpoint import claimed, pin
from endmark.driver.settings import settings
from endmark.engine.groups.plan import group_plans
from endmark.errors import ConfigError
from endmark.operators.stream_join.presets import PRESETS, Policy, Preset, Propagation, policy
from endmark.pipeline.boundedness import require_bounded, states
from endmark.spark.tables import targets
from support.verify_world import make_pipeline


def preset_of(name: str, windows: tuple[int | None, int | None] = (None, None), **join: Any) -> Any:
    """A pipeline of a preset; of one that announces nothing, without an aggregate."""
    aggregated = PRESETS[Preset(name)].propagate is not Propagation.NEVER
    return make_pipeline(windows=windows, join={"preset": name, **join}, aggregated=aggregated)


def test_a_preset_says_what_becomes_of_state() -> None:
    """Rows of the table in the design; `auto` does everything."""
    assert policy(Preset.SHJ, windowed=False) == Policy(None, Propagation.NEVER)
    assert policy(Preset.PJOIN, windowed=False, purge_every=9) == Policy(9, Propagation.CLOSED)
    assert policy(Preset.PWJOIN, windowed=True) == policy(Preset.AUTO, windowed=True) == Policy()


@pytest.mark.parametrize(
    ("preset", "windows", "join", "message"),
    [
        (
            "shj",
            (1, None),
            {},
            "steps.matched.window: preset shj has no windows; leave it out, or choose preset wjoin, ",
        ),
        (
            "pjoin",
            (None, 1),
            {},
            "preset pjoin has no windows; leave it out, or choose preset wjoin, pwjoin, auto",
        ),
        (
            "pwjoin",
            (1, 1),
            {"purge_every": 2},
            "steps.matched.purge_every: preset pwjoin purges with each punctuation; leave it out, or choose ",
        ),
        (
            "pwjoin",
            (1, 1),
            {"memory": "1MB"},
            "steps.matched.memory: preset pwjoin keeps all rows in memory; leave it out",
        ),
        ("shj", (None, None), {"memory": 9}, "or choose preset xjoin, pjoin, mjoin, auto"),
        (
            "pwjoin",
            (1, 1),
            {"autotune": True},
            "steps.matched.autotune: preset pwjoin purges with each punctuation; leave it out, or choose ",
        ),
        (
            "pwjoin",
            (1, 1),
            {"goal": "throughput"},
            "steps.matched.goal: preset pwjoin purges with each punctuation; leave it out, or choose ",
        ),
        (
            "xjoin",
            (None, None),
            {"goal": "memory"},
            "steps.matched.goal: preset xjoin does not purge; leave it out",
        ),
        (
            "wjoin",
            (1, 1),
            {"purge_every": 2},
            "steps.matched.purge_every: preset wjoin does not purge; leave it out",
        ),
    ],
)
def test_what_a_preset_has_no_use_for_is_refused(
    preset: str, windows: tuple[int | None, int | None], join: dict[str, Any], message: str
) -> None:
    """The message names the field and the presets that would do."""
    with pytest.raises(ConfigError) as caught:
        preset_of(preset, windows, **join)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("join", "chosen"),
    [
        ({}, Policy()),
        ({"goal": "punctuations"}, Policy()),
        ({"goal": "throughput"}, Policy(purge_every=100)),
        ({"goal": "memory"}, Policy(memory=64_000_000)),
        ({"goal": "throughput", "purge_every": 1}, Policy()),
        ({"goal": "throughput", "memory": "1MB"}, Policy(purge_every=100, memory=1_000_000)),
        ({"goal": "memory", "memory": None}, Policy()),
        ({"goal": "throughput", "preset": "mjoin"}, Policy(100, Propagation.CLOSED)),
    ],
)
def test_a_goal_sets_what_the_file_leaves_out(join: dict[str, Any], chosen: Policy) -> None:
    """An explicit value wins, even if it is the default. When keys are announced is for the preset to say."""
    declared = make_pipeline(windows=(None, None), join=join).join
    assert declared is not None
    assert declared.policy(field="") == chosen


def test_a_knob_starts_from_its_goal() -> None:
    """A turn of one knob leaves the other as the goal has set it."""
    steps = steps_of(make_pipeline(windows=(None, None), join={"goal": "throughput"}))

    assert filed(steps)["steps.matched.purge_every"] == 100
    assert turned(steps, "steps.matched.purge_every", 7) == 7
    assert turned(steps, "steps.matched.memory", None) is None


def test_pjoin_and_mjoin_are_one() -> None:
    """The docs say so; they differ only in the order of rows, and a batch has none."""
    assert PRESETS[Preset.PJOIN] == PRESETS[Preset.MJOIN]


def test_an_aggregate_needs_announcements(tmp_path: Path) -> None:
    """No group of a preset without them would ever close; without it there is no table of groups."""
    with pytest.raises(
        ValueError, match="preset xjoin announces no key, so no group would ever close; leave it"
    ):
        make_pipeline(windows=(None, None), join={"preset": "xjoin"})

    pipeline = preset_of("xjoin")
    assert group_plans(pipeline) == ()
    assert [table.channel for table in targets(pipeline, tmp_path)] == [
        "results",
        "dead_letters",
        "violations",
        "announced",
    ]


def test_memory_is_a_size_that_buckets_share() -> None:
    """In decimal units, as disks are sold."""
    declared = preset_of("xjoin", memory="256MB").join
    assert declared is not None
    assert declared.policy(buckets=2, field="").memory == 128_000_000
    with pytest.raises(ValueError, match="'1MiB' is not a size such as 500kB, 256MB or 2GB"):
        preset_of("xjoin", memory="1MiB")


def test_state_is_bounded_by_what_the_preset_does() -> None:
    """Windows and punctuations count only where the preset uses them."""
    with pytest.raises(ConfigError) as caught:
        require_bounded(preset_of("shj"))
    assert str(caught.value) == (
        "items rows: unbounded, since preset shj has no windows and does not purge; "
        "bids rows: unbounded, since preset shj has no windows and does not purge; "
        "set steps.matched.preset: auto, or accept it with unbounded_state: allow"
    )
    told = [str(state) for state in states(preset_of("wjoin", (5, None)))]
    assert told[:2] == [
        "items rows: bounded by window 5 s after bids' progress",
        "bids rows: unbounded, since steps.matched.window.known is not set and preset wjoin does not purge",
    ]
    assert (
        str(states(preset_of("pjoin"))[2])
        == "by_key groups: bounded by items' and bids' punctuations on item_id"
    )
    alone = make_pipeline(windows=(None, None), punctuated=(True, False), join={"preset": "mjoin"})
    assert str(states(alone)[2]) == (
        "by_key groups: unbounded, since preset mjoin announces what both close and bids closes nothing"
    )


def test_a_checkpoint_keeps_its_preset(tmp_path: Path) -> None:
    """State that one preset left behind would never be freed by the rules of another."""
    assert settings(preset_of("auto"), buckets=2)["steps"]["matched"]["preset"] == "auto"
    with claimed(tmp_path):
        pin(tmp_path, settings(preset_of("pjoin"), buckets=2), tmp_path)
        with pytest.raises(
            ConfigError,
            match=r'other settings: steps\.matched\.preset was "pjoin", is "mjoin"; go back to them, or',
        ):
            pin(tmp_path, settings(preset_of("mjoin"), buckets=2), tmp_path)
