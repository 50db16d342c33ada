"""Checks of the key of a stage, and of what streams promise about its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.operators.stream_join.presets import PRESETS, Preset, Propagation
from endmark.pipeline.duration_words import in_words
from endmark.pipeline.fields import quoted, require_column, require_key_column
from endmark.types import ColumnType

if TYPE_CHECKING:
    from datetime import timedelta

    from endmark.pipeline.stage import Stage


def check_key(stage: Stage) -> None:
    """Check that all inputs of a stage have its key, and that streams promise nothing against it."""
    field, key = stage.named_key
    for number in range(len(key)):
        _check_key_column(stage, number, field)
    for name in stage.streams:
        for member in stage.pipeline.flow.members_of(name):
            _check_promises(stage, member)


def _check_promises(stage: Stage, side: str) -> None:
    """Check what a stream promises against the key of its stage."""
    key, declared = stage.key, stage.pipeline.streams[side]
    whose = "key" if stage.join is None else "join key"
    missing = tuple(name for name in key if name not in declared.promised_on)
    if missing and len(missing) < len(key):
        raise ValueError(
            f"streams.{side}.punctuated_on: {quoted(missing)} of the {whose} {quoted(key)} is "
            "missing; name all of the key, or none of it"
        )
    if declared.unique and declared.clustered:
        raise ValueError(f"streams.{side}.clustered: unique keys are in clusters anyhow; leave it out")
    implied = {
        "ordered": tuple(declared.ordered),
        "unique": declared.unique,
        "clustered": declared.clustered,
    }
    for field, by in implied.items():
        if by and set(by) != set(key):
            raise ValueError(
                f"streams.{side}.{field}: {quoted(by)} is not the {whose} {quoted(key)}, so it "
                "closes no key; leave it out"
            )
    if declared.forget_keys_after is not None:
        _check_forgetting(stage, side, declared.forget_keys_after)


def check_duplicates(stage: Stage, side: str) -> None:
    """Check that duplicates come to the same bucket, and that they are no violations."""
    pipeline, found = stage.pipeline, stage.pipeline.deduplicate_of(side)
    if found is None:
        return
    field, by = f"steps.{found[0]}.deduplicate", found[1].by
    for name in by:
        require_key_column(pipeline.stream_columns(side), name, f"{field}.by")
    if missing := tuple(name for name in stage.key if name not in by):
        origin, _ = stage.named_key
        raise ValueError(
            f"{field}.by: {quoted(missing)} of {origin} is missing, so duplicates could be in different "
            f"buckets; write by: [{', '.join([*by, *missing])}], as duplicates have the same key anyhow"
        )
    if pipeline.inputs[side].unique:
        raise ValueError(
            f"{field}: a second row of a key is a violation, since streams.{side}.unique promises that "
            "there is none; leave one of the two out"
        )


def _check_forgetting(stage: Stage, side: str, forget_after: timedelta) -> None:
    """Check that a row of a forgotten key is late, and that no result and no group waits for the key."""
    field, join, step = f"streams.{side}.forget_keys_after", stage.join, stage.field
    if not stage.promises.closes_keys(side):
        raise ValueError(f"{field}: {side} closes no key; leave it out")
    if join is None:
        return
    _check_stage_behind(stage, field)
    if stage.propagation is Propagation.CLOSED:
        raise ValueError(
            f"{field}: preset {join.preset} announces a key once all streams have closed it, so none may "
            f"be forgotten before; leave it out, or choose {step}.preset: {Preset.AUTO}"
        )
    for other in stage.inputs:
        if other != side and stage.preserved(other):
            raise ValueError(
                f"{field}: rows of {other} are results once {side} has closed their key, so it must not "
                f"be forgotten; leave it out, or choose another {step}.type"
            )
        window = stage.window_of(other) if PRESETS[join.preset].window else None
        if window is None:
            raise ValueError(
                f"{field}: rows of {other} would stay for ever once their key is forgotten; set {step}.window"
            )
        if other == side and forget_after < window:
            raise ValueError(
                f"{field}: {in_words(forget_after)} is less than the window of {side}, "
                f"{in_words(window)}, in which a key still has results; use the window or more"
            )


def _check_stage_behind(stage: Stage, field: str) -> None:
    """Check that no further stage remembers the keys that a stage forgets."""
    behind = next((each for each in stage.pipeline.stages if each.earlier is stage), None)
    if behind is not None and behind.same_key:
        join = stage.steps.join
        raise ValueError(
            f"{field}: rows of {join} go on into a stage on the same key, which remembers all keys that "
            f"{join} announces; leave it out, or join all streams on this key in {stage.field}, and look "
            "rows up in front of it"
        )


def _check_key_column(stage: Stage, number: int, field: str) -> None:
    """Check one column of the key of a stage, given its number in the key."""
    name, kinds = stage.key[number], dict[str, ColumnType]()
    for side in stage.inputs:
        if side in stage.pipeline.inputs:
            require_column(stage.pipeline.stream_columns(side), name, field)
        kinds[side] = stage.kinds_of(side)[number]
    first, kind = next(iter(kinds.items()))
    if odd := [side for side, other in kinds.items() if other != kind]:
        raise ValueError(
            f"{field}: column {name!r} is {kind} in stream {first}, but {kinds[odd[0]]} in {odd[0]}; "
            f"declare one type for {'both' if len(kinds) == 2 else 'all'}"
        )
    if ColumnType.DOUBLE in kinds.values():
        raise ValueError(
            f"{field}: column {name!r} is double, and equal doubles are a matter of rounding; declare it "
            "long, string or decimal(18,2) in each stream"
        )
